# SPDX-License-Identifier: LGPL-2.1-or-later
"""DTrace's names for what can be wrong with the meaning of a program; those of its text are in lang/d/tags.py."""

from __future__ import annotations

from enum import StrEnum


class Tag(StrEnum):
    D_IDENT_UNDEF = "D_IDENT_UNDEF"  # no such variable
    D_FUNC_UNDEF = "D_FUNC_UNDEF"  # no such function
    D_TYPE_ERR = "D_TYPE_ERR"  # no such type
    D_TYPE_MEMBER = "D_TYPE_MEMBER"  # no such member
    D_SYM_NOTYPES = "D_SYM_NOTYPES"  # a symbol of the target, whose type is not known
    D_PROTO_LEN = "D_PROTO_LEN"  # too few arguments, or too many
    D_PROTO_ARG = "D_PROTO_ARG"  # one that is not what the function takes
    D_OP_INCOMPAT = "D_OP_INCOMPAT"  # two types that do not go together
    D_OP_ARITH = "D_OP_ARITH"  # an operator of numbers, and something else
    D_OP_INT = "D_OP_INT"  # one of integers
    D_OP_SCALAR = "D_OP_SCALAR"  # one of what is true or false
    D_OP_VOID = "D_OP_VOID"  # an operand without a value
    D_OP_LVAL = "D_OP_LVAL"  # an assignment to what is no variable
    D_OP_WRITE = "D_OP_WRITE"  # to one that cannot be written
    D_OP_DYN = "D_OP_DYN"  # an associative array as a whole
    D_OP_SOU = "D_OP_SOU"  # a member of what is no struct or union
    D_OP_PTR = "D_OP_PTR"  # -> of what is no pointer
    D_OP_INCOMPLETE = "D_OP_INCOMPLETE"  # a struct of which only the name is known
    D_DEREF_NONPTR = "D_DEREF_NONPTR"
    D_DEREF_VOID = "D_DEREF_VOID"
    D_ADDROF_LVAL = "D_ADDROF_LVAL"  # & of a value
    D_ADDROF_VAR = "D_ADDROF_VAR"  # & of a variable of D's
    D_ADDROF_BITFIELD = "D_ADDROF_BITFIELD"
    D_CAST_INVAL = "D_CAST_INVAL"
    D_SIZEOF_TYPE = "D_SIZEOF_TYPE"
    D_STRINGOF_TYPE = "D_STRINGOF_TYPE"
    D_OFFSETOF_TYPE = "D_OFFSETOF_TYPE"
    D_XLATE_NONE = "D_XLATE_NONE"  # no such translator
    D_ARR_BADREF = "D_ARR_BADREF"  # an index of what is no array, or outside of it
    D_ARR_INDEX = "D_ARR_INDEX"  # an index that is no integer
    D_ARR_LOCAL = "D_ARR_LOCAL"  # an associative array that is clause-local
    D_ARGS_IDX = "D_ARGS_IDX"  # args[ ] beyond its end
    D_ARGS_TYPE = "D_ARGS_TYPE"  # args[ ] with an index that is not constant
    D_KEY_PROTO = "D_KEY_PROTO"  # another number of keys than before
    D_KEY_TYPE = "D_KEY_TYPE"  # a key of another type than before
    D_PRED_SCALAR = "D_PRED_SCALAR"
    D_TRACE_VOID = "D_TRACE_VOID"  # what cannot be recorded
    D_TRACEMEM_ADDR = "D_TRACEMEM_ADDR"
    D_TRACEMEM_SIZE = "D_TRACEMEM_SIZE"
    D_TRACEMEM_DYNSIZE = "D_TRACEMEM_DYNSIZE"
    D_USTACK_FRAMES = "D_USTACK_FRAMES"
    D_STACK_SIZE = "D_STACK_SIZE"
    D_AGG_FUNC = "D_AGG_FUNC"  # an aggregation that is assigned something else
    D_AGG_CONTEXT = "D_AGG_CONTEXT"  # an aggregating function elsewhere
    D_AGG_NULL = "D_AGG_NULL"  # an aggregation where a value is wanted
    D_AGG_REDEF = "D_AGG_REDEF"  # another function than before
    D_AGG_SCALAR = "D_AGG_SCALAR"  # a value that is no number
    D_ACT_CONTEXT = "D_ACT_CONTEXT"  # an action where a value is wanted
    D_LQUANT_BASETYPE = "D_LQUANT_BASETYPE"
    D_LQUANT_LIMTYPE = "D_LQUANT_LIMTYPE"
    D_LQUANT_STEPTYPE = "D_LQUANT_STEPTYPE"
    D_LQUANT_MISMATCH = "D_LQUANT_MISMATCH"  # the base is not below the limit
    D_LQUANT_STEPLARGE = "D_LQUANT_STEPLARGE"
    D_LQUANT_STEPVAL = "D_LQUANT_STEPVAL"
    D_LLQUANT_FACTORTYPE = "D_LLQUANT_FACTORTYPE"
    D_LLQUANT_LOWTYPE = "D_LLQUANT_LOWTYPE"
    D_LLQUANT_HIGHTYPE = "D_LLQUANT_HIGHTYPE"
    D_LLQUANT_NSTEPTYPE = "D_LLQUANT_NSTEPTYPE"
    D_LLQUANT_FACTORSMALL = "D_LLQUANT_FACTORSMALL"
    D_LLQUANT_MAGRANGE = "D_LLQUANT_MAGRANGE"
    D_LLQUANT_FACTORNSTEPS = "D_LLQUANT_FACTORNSTEPS"
    D_CLEAR_AGGARG = "D_CLEAR_AGGARG"
    D_TRUNC_AGGARG = "D_TRUNC_AGGARG"
    D_NORMALIZE_AGGARG = "D_NORMALIZE_AGGARG"
    D_NORMALIZE_SCALAR = "D_NORMALIZE_SCALAR"
    D_SPEC_SPEC = "D_SPEC_SPEC"  # speculate() twice
    D_SPEC_DREC = "D_SPEC_DREC"  # after data were recorded
    D_SPEC_COMM = "D_SPEC_COMM"  # after commit()
    D_AGG_SPEC = "D_AGG_SPEC"  # an aggregation after speculate()
    D_ACT_SPEC = "D_ACT_SPEC"  # a destructive action after it
    D_EXIT_SPEC = "D_EXIT_SPEC"
    D_COMM_COMM = "D_COMM_COMM"  # commit() twice
    D_COMM_DREC = "D_COMM_DREC"  # after data were recorded
    D_DREC_COMM = "D_DREC_COMM"  # data after commit()
    D_DECL_IDRED = "D_DECL_IDRED"
    D_DECL_TYPERED = "D_DECL_TYPERED"
    D_DECL_VOIDOBJ = "D_DECL_VOIDOBJ"
    D_DECL_INCOMPLETE = "D_DECL_INCOMPLETE"
    D_DECL_ARRSUB = "D_DECL_ARRSUB"
    D_DECL_ENCONST = "D_DECL_ENCONST"
    D_DECL_BFCONST = "D_DECL_BFCONST"
    D_DECL_BFTYPE = "D_DECL_BFTYPE"
    D_DECL_BFSIZE = "D_DECL_BFSIZE"
    D_DECL_MNAME = "D_DECL_MNAME"
    D_DECL_STRPARM = "D_DECL_STRPARM"
    D_PRAGMA_OPTSET = "D_PRAGMA_OPTSET"  # an option that there is not, or a value that it cannot have
    D_KERNEL = "D_KERNEL"  # it is about the kernel, where no clause runs
    D_UNSUPPORTED = "D_UNSUPPORTED"  # D, but not here yet
