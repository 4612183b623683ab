import faulthandler, sys, time, traceback
faulthandler.enable(); faulthandler.dump_traceback_later(100, exit=True)
import torch, torch.nn.functional as F
import torch_tile
from torch_tile import _C
print("assembler", _C.assembler(), torch.cuda.get_device_name(), flush=True)
def check(name, f, *args, tol=1e-4):
    torch.compiler.reset()
    try:
        e = f(*args)
        t = time.perf_counter()
        g = torch.compile(f, backend="tile", dynamic=False, options={"strict": True, "cache": False})
        r = g(*args); torch.cuda.synchronize()
        t = time.perf_counter() - t
        torch.testing.assert_close(r, e, rtol=tol, atol=tol)
        print("ok  ", name, f"{t*1e3:.0f} ms", flush=True)
    except Exception as x:
        print("FAIL", name, str(x)[:600], flush=True)
        if "CUDA error" in str(x): sys.exit(1)
x = torch.randn(300, 1000, device="cuda"); y = torch.randn(300, 1000, device="cuda")
check("add", lambda a, b: a + b, x, y)
check("gelu", lambda a: F.gelu(a), x)
check("bf16", lambda a, b: F.silu(a) * b, x.bfloat16(), y.bfloat16(), tol=2e-2)
check("rowsum", lambda a: a.sum(-1), x)
check("colsum", lambda a: a.sum(0), x, tol=1e-3)
check("fullsum", lambda a: a.sum(), torch.randn(1 << 22, device="cuda"), tol=1e-1)
check("softmax", lambda a: a.softmax(-1), x)
check("softmax odd", lambda a: a.softmax(-1), torch.randn(77, 1003, device="cuda"))
check("softmax short", lambda a: a.softmax(-1), torch.randn(77, 13, device="cuda"))
check("softmax long", lambda a: a.softmax(-1), torch.randn(7, 200000, device="cuda"))
check("layernorm", lambda a: F.layer_norm(a, (1000,)), x)
check("transpose", lambda a, b: a + b.t(), torch.randn(513, 300, device="cuda"), torch.randn(300, 513, device="cuda"))
check("argmax", lambda a: a.argmax(-1), x)
check("embedding", lambda i, t: t[i] * 2, torch.randint(100, (57,), device="cuda"), torch.randn(100, 33, device="cuda"))
check("cat", lambda a, b: torch.cat([a, b], 1) * 2, x, y[:, :17])
check("scalar cpu", lambda a, s: a * s, x, torch.tensor(2.5))
check("mm", lambda a, b: F.relu(a @ b.t() + 1), x, y, tol=1e-2)
check("bn", lambda a: F.batch_norm(a, None, None, training=True), torch.randn(8, 16, 12, 12, device="cuda"))
check("arange", lambda a: a + torch.arange(1000, device="cuda"), x)
check("cumsum extern", lambda a: (a + 1).cumsum(0) * 2, x, tol=1e-3)
check("mixed", lambda a, c: (a * 2, (c + 1).relu(), a.cpu() + c), torch.randn(4, 5, device="cuda"), torch.randn(4, 5))
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    check("stream", lambda a, b: a * b - 1, x, y)
faulthandler.cancel_dump_traceback_later()
