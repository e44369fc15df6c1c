# 1 "script.d"
# 1 "<built-in>" 1
# 1 "/usr/include/mine.h" 1 3 4
typedef unsigned long mine_t;
#ident "nothing"
#pragma once
# 7 "script.d" 2

#line 9
mine_t counter_value;
BEGIN { counter_value = (mine_t)1; }
