// A vector addition, as Triton 3.9 prints it in generic form: ops stay one to one, pointers become pointers of the tile dialect, names of variables stay.
// RUN: tile-compile %s --emit=30-tile.mlir | FileCheck %s
// RUN: tile-compile %s --emit=35-strip-mine.mlir | FileCheck %s --check-prefix=STRIP

// CHECK-LABEL: tile.kernel @add(%{{.*}}: !tile.ptr<f32>, %{{.*}}: !tile.ptr<f32>, %{{.*}}: !tile.ptr<f32>, %{{.*}}: i32)
// CHECK: tile.program_id 0 : i32
// CHECK: %[[MASK:.*]] = arith.cmpi slt
// CHECK: %[[P:.*]] = tile.ptr_add %{{.*}}, %{{.*}} : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
// CHECK: tile.gather %[[P]] mask %[[MASK]] : tensor<256xi1> : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
// CHECK: tile.scatter
// STRIP-NOT: tile.gather
// STRIP: tile.load %{{.*}}[%{{.*}}] strides [1] mask
// STRIP: tile.store

#loc = loc("kernels.py":10:1)
#loc11 = loc("x_ptr"(#loc))
#loc12 = loc("y_ptr"(#loc))
#loc13 = loc("out_ptr"(#loc))
#loc14 = loc("n"(#loc))
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.ptr<f32>, !tt.ptr<f32>, !tt.ptr<f32>, i32) -> (), sym_name = "add", sym_visibility = "public"}> ({
  ^bb0(%x_ptr: !tt.ptr<f32> loc("x_ptr"(#loc)), %y_ptr: !tt.ptr<f32> loc("y_ptr"(#loc)), %out_ptr: !tt.ptr<f32> loc("out_ptr"(#loc)), %n: i32 loc("n"(#loc))):
    %offsets = "arith.constant"() <{value = 256 : i32}> : () -> i32 loc(#loc15)
    %offsets_0 = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32 loc(#loc15)
    %offsets_1 = "arith.muli"(%offsets_0, %offsets) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32 loc(#loc15)
    %offsets_2 = "tt.make_range"() <{end = 256 : i32, start = 0 : i32}> : () -> tensor<256xi32> loc(#loc16)
    %offsets_3 = "tt.splat"(%offsets_1) : (i32) -> tensor<256xi32> loc(#loc15)
    %offsets_4 = "arith.addi"(%offsets_3, %offsets_2) <{overflowFlags = #arith.overflow<none>}> : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi32> loc(#loc15)
    %mask = "tt.splat"(%n) : (i32) -> tensor<256xi32> loc(#loc17)
    %mask_5 = "arith.cmpi"(%offsets_4, %mask) <{predicate = 2 : i64}> : (tensor<256xi32>, tensor<256xi32>) -> tensor<256xi1> loc(#loc17)
    %x = "tt.splat"(%x_ptr) : (!tt.ptr<f32>) -> tensor<256x!tt.ptr<f32>> loc(#loc18)
    %x_6 = "tt.addptr"(%x, %offsets_4) : (tensor<256x!tt.ptr<f32>>, tensor<256xi32>) -> tensor<256x!tt.ptr<f32>> loc(#loc18)
    %x_7 = "tt.load"(%x_6, %mask_5) <{isVolatile = false, operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<256x!tt.ptr<f32>>, tensor<256xi1>) -> tensor<256xf32> loc(#loc19)
    %y = "tt.splat"(%y_ptr) : (!tt.ptr<f32>) -> tensor<256x!tt.ptr<f32>> loc(#loc20)
    %y_8 = "tt.addptr"(%y, %offsets_4) : (tensor<256x!tt.ptr<f32>>, tensor<256xi32>) -> tensor<256x!tt.ptr<f32>> loc(#loc20)
    %y_9 = "tt.load"(%y_8, %mask_5) <{isVolatile = false, operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<256x!tt.ptr<f32>>, tensor<256xi1>) -> tensor<256xf32> loc(#loc21)
    %0 = "tt.splat"(%out_ptr) : (!tt.ptr<f32>) -> tensor<256x!tt.ptr<f32>> loc(#loc8)
    %1 = "tt.addptr"(%0, %offsets_4) : (tensor<256x!tt.ptr<f32>>, tensor<256xi32>) -> tensor<256x!tt.ptr<f32>> loc(#loc8)
    %2 = "arith.addf"(%x_7, %y_9) <{fastmath = #arith.fastmath<none>}> : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32> loc(#loc9)
    "tt.store"(%1, %2, %mask_5) : (tensor<256x!tt.ptr<f32>>, tensor<256xf32>, tensor<256xi1>) -> () loc(#loc10)
    "tt.return"() : () -> () loc(#loc)
  }) {noinline = false} : () -> () loc(#loc)
}) {generic = 1 : i32} : () -> () loc(#loc)
#loc1 = loc("kernels.py":11:15)
#loc2 = loc("kernels.py":11:42)
#loc3 = loc("kernels.py":12:12)
#loc4 = loc("kernels.py":13:17)
#loc5 = loc("kernels.py":13:9)
#loc6 = loc("kernels.py":14:17)
#loc7 = loc("kernels.py":14:9)
#loc8 = loc("kernels.py":15:14)
#loc9 = loc("kernels.py":15:33)
#loc10 = loc("kernels.py":15:5)
#loc15 = loc("offsets"(#loc1))
#loc16 = loc("offsets"(#loc2))
#loc17 = loc("mask"(#loc3))
#loc18 = loc("x"(#loc4))
#loc19 = loc("x"(#loc5))
#loc20 = loc("y"(#loc6))
#loc21 = loc("y"(#loc7))
