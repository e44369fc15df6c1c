/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * All that a lowered D clause calls, to be included in the one file that holds
 * the clauses. Everything is static, and nothing here calls anything else.
 *
 * Ownership: the memory is the client's; a context belongs to one execution of
 * one clause, lies on its stack, and is settled by gd_end().
 */
#ifndef GILK_D_RUNTIME_H
#define GILK_D_RUNTIME_H

#include "base.h"
#include "bytes.h"
#include "records.h"
#include "speculation.h"
#include "scratch.h"
#include "peek.h"
#include "unwind.h"
#include "stack.h"
#include "table.h"
#include "aggregate.h"
#include "dynamic.h"
#include "strings.h"
#include "paths.h"
#include "files.h"
#include "numbers.h"
#include "clause.h"

#endif
