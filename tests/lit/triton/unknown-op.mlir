// An op that is not known is named, at the user's line.
// RUN: not tile-compile %s --emit=none 2>&1 | FileCheck %s

// CHECK: unsupported: user.py:7: tt.unheard_of is not supported on CPU
"builtin.module"() ({
  "tt.func"() <{function_type = (i32) -> (), sym_name = "f", sym_visibility = "public"}> ({
  ^bb0(%n: i32):
    "tt.unheard_of"(%n) : (i32) -> () loc("user.py":7:3)
    "tt.return"() : () -> ()
  }) : () -> ()
}) {generic = 1 : i32} : () -> ()
