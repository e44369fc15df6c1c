/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* C++ exceptions through many frames, destructors, virtual calls, loops and noexcept boundaries. */
#include "check.h"

#include <stdexcept>
#include <string>

namespace {

long alive, destroyed;

struct Guard {
	explicit Guard(long value) : value(value) { alive++; }
	~Guard()
	{
		alive--;
		destroyed += value;
	}
	Guard(const Guard &) = delete;
	long value;
};

struct Base {
	virtual ~Base() = default;
	virtual long visit(long depth) = 0;
};

struct Thrower final : Base {
	long visit(long depth) override;
};

struct Passer final : Base {
	explicit Passer(Base *next) : next(*next) {}
	long visit(long depth) override;
	Base &next;
};

NOINLINE long Thrower::visit(long depth)
{
	Guard guard(1);
	BARRIER();
	if (depth >= 0)
		throw depth;
	return depth;
}

NOINLINE long Passer::visit(long depth)
{
	Guard guard(2);
	return next.visit(depth + 1) + guard.value;
}

NOINLINE long descend(long depth, long seed)
{
	Guard guard(depth);
	BARRIER();
	if (depth == 0) {
		if (seed % 3 == 0)
			throw std::runtime_error("deep " + std::to_string(seed));
		if (seed % 3 == 1)
			throw seed;
		return seed;
	}
	return descend(depth - 1, seed) + 1;
}

void check_deep(long seed)
{
	destroyed = 0;
	try {
		long value = descend(40, seed);
		CHECK(seed % 3 == 2 && value == seed + 40, "no exception for %ld", seed);
	} catch (const std::runtime_error &error) {
		CHECK(seed % 3 == 0 && error.what() == "deep " + std::to_string(seed), "wrong text: %s", error.what());
	} catch (long value) {
		CHECK(seed % 3 == 1 && value == seed, "wrong value %ld", value);
	}
	CHECK(alive == 0 && destroyed == 40 * 41 / 2, "destructors: %ld alive, %ld summed", alive, destroyed);
}

NOINLINE long rethrow(long depth)
{
	try {
		return descend(depth, 1);
	} catch (long value) {
		if (depth > 3)
			throw;
		return value * 100;
	}
}

void check_rethrow()
{
	bool caught = false;
	CHECK(rethrow(2) == 100, "caught value is wrong");
	try {
		rethrow(5);
	} catch (long value) {
		caught = value == 1;
	}
	CHECK(caught && alive == 0, "a rethrown exception got lost");
}

void check_nested()
{
	int order = 0;
	try {
		try {
			descend(3, 0);
		} catch (const std::exception &) {
			order = order * 10 + 1;
			try {
				descend(2, 1);
			} catch (long) {
				order = order * 10 + 2;
			}
			throw;
		}
	} catch (const std::runtime_error &) {
		order = order * 10 + 3;
	}
	CHECK(order == 123 && alive == 0, "nested handlers ran as %d", order);
}

NOINLINE long fence(long seed) noexcept
{
	try {
		return descend(6, seed);
	} catch (...) {
		return -1;
	}
}

void check_virtual()
{
	Thrower last;
	Passer third(&last), second(&third), first(&second);
	Base &base = first;
	destroyed = 0;
	try {
		base.visit(0);
		CHECK(false, "virtual calls did not throw");
	} catch (long depth) {
		CHECK(depth == 3 && alive == 0 && destroyed == 7, "virtual: depth %ld, %ld destroyed", depth, destroyed);
	}
}

void check_loop(long turns)
{
	long caught = 0, returned = 0;
	for (long i = 0; i < turns; i++) {
		try {
			Guard guard(i);
			if (i % 4 == 3)
				continue;
			returned += descend(i % 5, i) != 0;
		} catch (const std::exception &) {
			caught += 1;
		} catch (...) {
			caught += 1000;
		}
	}
	long errors = 0, numbers = 0, values = 0;
	for (long i = 0; i < turns; i++) {
		if (i % 4 == 3)
			continue;
		(i % 3 == 0 ? errors : i % 3 == 1 ? numbers : values)++;
	}
	CHECK(caught == errors + 1000 * numbers && returned == values, "loop: %ld caught, %ld returned", caught, returned);
}

void one_round(long amount)
{
	for (long i = 0; i < amount; i++) {
		check_deep(i);
		check_rethrow();
		check_nested();
		CHECK(fence(2) == 8 && fence(1) == -1 && fence(0) == -1, "the noexcept boundary leaks");
		check_virtual();
		check_loop(24);
	}
}

} // namespace

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "exceptions", 100, one_round);
}
