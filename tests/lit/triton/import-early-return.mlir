// `return` inside `if` comes as branches between blocks, which become nested control flow.
// RUN: tile-compile %s --emit=30-tile.mlir | FileCheck %s

// CHECK-LABEL: tile.kernel @collatz
// CHECK-NOT: cf.
// CHECK: scf.if
// CHECK: scf.while

#loc = loc("kernels.py":152:1)
#loc4 = loc("kernels.py":153:9)
#loc8 = loc("kernels.py":154:5)
#loc17 = loc("x_ptr"(#loc))
#loc18 = loc("out_ptr"(#loc))
#loc21 = loc("n"(#loc4))
#loc23 = loc("steps"(#loc8))
#loc30 = loc("n"(#loc21))
#loc31 = loc("steps"(#loc23))
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.ptr<i32>, !tt.ptr<i32>) -> (), sym_name = "collatz", sym_visibility = "public"}> ({
  ^bb0(%x_ptr: !tt.ptr<i32> loc("x_ptr"(#loc)), %out_ptr: !tt.ptr<i32> loc("out_ptr"(#loc))):
    %0 = "arith.constant"() <{value = 3 : i32}> : () -> i32 loc(#loc1)
    %1 = "arith.constant"() <{value = 2 : i32}> : () -> i32 loc(#loc1)
    %2 = "arith.constant"() <{value = 1 : i32}> : () -> i32 loc(#loc1)
    %3 = "arith.constant"() <{value = 0 : i32}> : () -> i32 loc(#loc1)
    %n = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32 loc(#loc19)
    %n_0 = "tt.addptr"(%x_ptr, %n) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32> loc(#loc20)
    %n_1 = "tt.load"(%n_0) <{isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<i32>) -> i32 loc(#loc21)
    %4 = "arith.cmpi"(%n_1, %3) <{predicate = 3 : i64}> : (i32, i32) -> i1 loc(#loc5)
    "cf.cond_br"(%4)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> () loc(#loc5)
  ^bb1:  // pred: ^bb0
    "tt.return"() : () -> () loc(#loc6)
  ^bb2:  // pred: ^bb0
    %steps:2 = "scf.while"(%n_1, %3) ({
    ^bb0(%n_11: i32 loc("n"(#loc21)), %steps_12: i32 loc("steps"(#loc23))):
      %6 = "arith.cmpi"(%n_11, %2) <{predicate = 1 : i64}> : (i32, i32) -> i1 loc(#loc9)
      "scf.condition"(%6, %n_11, %steps_12) : (i1, i32, i32) -> () loc(#loc9)
    }, {
    ^bb0(%n_2: i32 loc("n"(#loc21)), %steps_3: i32 loc("steps"(#loc23))):
      %n_4 = "arith.remsi"(%n_2, %1) : (i32, i32) -> i32 loc(#loc24)
      %n_5 = "arith.cmpi"(%n_4, %3) <{predicate = 0 : i64}> : (i32, i32) -> i1 loc(#loc24)
      %n_6 = "arith.divsi"(%n_2, %1) : (i32, i32) -> i32 loc(#loc25)
      %n_7 = "arith.muli"(%n_2, %0) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32 loc(#loc26)
      %n_8 = "arith.addi"(%n_7, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32 loc(#loc26)
      %n_9 = "arith.select"(%n_5, %n_6, %n_8) : (i1, i32, i32) -> i32 loc(#loc27)
      %steps_10 = "arith.addi"(%steps_3, %2) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32 loc(#loc28)
      "scf.yield"(%n_9, %steps_10) : (i32, i32) -> () loc(#loc7)
    }) : (i32, i32) -> (i32, i32) loc(#loc29)
    %5 = "tt.addptr"(%out_ptr, %n) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32> loc(#loc15)
    "tt.store"(%5, %steps#1) : (!tt.ptr<i32>, i32) -> () loc(#loc16)
    "tt.return"() : () -> () loc(#loc)
  }) {noinline = false} : () -> () loc(#loc)
}) {generic = 1 : i32} : () -> () loc(#loc)
#loc1 = loc(unknown)
#loc2 = loc("kernels.py":153:25)
#loc3 = loc("kernels.py":153:17)
#loc5 = loc("kernels.py":155:8)
#loc6 = loc("kernels.py":156:9)
#loc7 = loc("kernels.py":157:5)
#loc9 = loc("kernels.py":157:11)
#loc10 = loc("kernels.py":158:22)
#loc11 = loc("kernels.py":158:34)
#loc12 = loc("kernels.py":158:42)
#loc13 = loc("kernels.py":158:13)
#loc14 = loc("kernels.py":159:9)
#loc15 = loc("kernels.py":160:14)
#loc16 = loc("kernels.py":160:5)
#loc19 = loc("n"(#loc2))
#loc20 = loc("n"(#loc3))
#loc22 = loc("n"(#loc7))
#loc24 = loc("n"(#loc10))
#loc25 = loc("n"(#loc11))
#loc26 = loc("n"(#loc12))
#loc27 = loc("n"(#loc13))
#loc28 = loc("steps"(#loc14))
#loc29 = loc("steps"(#loc22))
