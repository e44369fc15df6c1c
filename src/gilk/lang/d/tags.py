# SPDX-License-Identifier: LGPL-2.1-or-later
"""DTrace's names for errors in the text of a program. The checker has an enum of its own (meaning/tags.py)."""

from __future__ import annotations

from enum import StrEnum


class SyntaxTag(StrEnum):
    D_SYNTAX = "D_SYNTAX"  # a token that cannot stand there, or text that is nested too deeply
    D_STR_NL = "D_STR_NL"  # a string literal does not end on its line
    D_CHR_NL = "D_CHR_NL"  # a character constant does not end on its line
    D_CHR_NULL = "D_CHR_NULL"  # nothing is between the quotes of a character constant
    D_CHR_OFLOW = "D_CHR_OFLOW"  # more than eight bytes are between them
    D_INT_OFLOW = "D_INT_OFLOW"  # an integer does not fit 64 bits
    D_INT_DIGIT = "D_INT_DIGIT"  # an integer has a digit that its base does not have
    D_MACRO_UNDEF = "D_MACRO_UNDEF"  # an unknown macro variable, or an argument that is not given
    D_MACRO_UNUSED = "D_MACRO_UNUSED"  # an argument was given that the program does not use
    D_MACRO_OFLOW = "D_MACRO_OFLOW"  # an argument is an integer that does not fit 64 bits
    D_PDESC_INVAL = "D_PDESC_INVAL"  # a probe description has too many fields, or an unknown macro variable
    D_PRAGERR = "D_PRAGERR"  # the program says #error
    D_PRAGCTL_INVAL = "D_PRAGCTL_INVAL"  # a line begins with # and a word that D does not know
    D_PRAGMA_INVAL = "D_PRAGMA_INVAL"  # an unknown #pragma D, or one with invalid words
    D_PRAGMA_MALFORM = "D_PRAGMA_MALFORM"  # a #pragma D has too few words, or too many
    D_FUNC_IDENT = "D_FUNC_IDENT"  # a call of something that is not a name
    D_DECL_CHARATTR = "D_DECL_CHARATTR"  # short or long with char
    D_DECL_VOIDATTR = "D_DECL_VOIDATTR"  # a sign or length with void
    D_DECL_SIGNINT = "D_DECL_SIGNINT"  # signed or unsigned with a type that is not an integer
    D_DECL_LONGINT = "D_DECL_LONGINT"  # long with a type that is not a number
    D_DECL_COMBO = "D_DECL_COMBO"  # other words that do not make a type
    D_DECL_IDENT = "D_DECL_IDENT"  # two names in one declaration: the first is no type
    D_DECL_CLASS = "D_DECL_CLASS"  # two storage classes
    D_DECL_BADCLASS = "D_DECL_BADCLASS"  # a storage class that D does not allow there
    D_DECL_PARMCLASS = "D_DECL_PARMCLASS"  # a storage class in a parameter
    D_DECL_IDRED = "D_DECL_IDRED"  # a typedef of a name that is a type already
    D_DECL_MNAME = "D_DECL_MNAME"  # a member without a name
    D_DECL_SCOPE = "D_DECL_SCOPE"  # a backquote in a name that is declared
    D_DECL_ARRNULL = "D_DECL_ARRNULL"  # an array without size or keys
    D_DECL_USELESS = "D_DECL_USELESS"  # a declaration that declares nothing
    D_DECL_PROTO_VARARGS = "D_DECL_PROTO_VARARGS"  # ... in the keys of an array or the parameters of a probe
