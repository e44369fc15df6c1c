/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fibers of boost's context library. Those of `standing` live as long as the program: each turn, another thread resumes
 * them, and between two rounds they are left in the middle of calls. At the end, the library unwinds their stacks by an
 * exception. The continuations of `passing` live for a round; half of them are unwound before they have finished.
 *
 * Each round prints a sum, and how often work(), deeper() and fail() were called and exceptions were caught.
 */
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <boost/context/continuation.hpp>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>

#include "kind.h"

namespace context = boost::context;

enum { FIBERS = 300, PASSING = 40, THREADS = 4, TURNS = 8, DEPTH = 3, STACK = 24 << 10 };

static std::atomic<long> works, deepers, fails, caught, unwound;

struct Odd {
	long number;
};

struct Guard {
	~Guard() { unwound++; }
};

/* Gives up the processor in the innermost call; the thread that goes on may be another. */
template <typename Context> NOINLINE long deeper(Context &back, long x, int depth)
{
	Guard guard;

	deepers++;
	if (depth)
		x = deeper(back, x, depth - 1) + 1;
	else
		back = std::move(back).resume();
	works++;
	return work(x);
}

NOINLINE long fail(long x)
{
	fails++;
	if (x & 4)
		throw Odd{x};
	return x / 2;
}

NOINLINE long attempt(long x)
{
	try {
		return fail(x);
	} catch (const Odd &odd) {
		caught++;
		return odd.number + 3;
	}
}

struct Standing {
	long state;
	context::fiber fiber;

	explicit Standing(long first) : state(first)
	{
		fiber = context::fiber(std::allocator_arg, context::fixedsize_stack(STACK), [this](context::fiber &&back) {
			for (;;)
				state = attempt(deeper(back, state, DEPTH));
			return std::move(back);
		});
	}
};

static std::vector<Standing> standing;

static void turn(int number)
{
	std::vector<std::thread> threads;

	for (int thread = 0; thread < THREADS; thread++)
		threads.emplace_back([=] {
			for (int i = (thread + number) % THREADS; i < FIBERS; i += THREADS)
				standing[i].fiber = std::move(standing[i].fiber).resume();
		});
	for (auto &thread : threads)
		thread.join();
}

static long passing(void)
{
	static context::pooled_fixedsize_stack pool(STACK);
	std::vector<context::continuation> continuations;
	long sum = 0;

	for (int i = 0; i < PASSING; i++)
		continuations.push_back(context::callcc(std::allocator_arg, pool, [&sum, i](context::continuation &&back) {
			sum += attempt(deeper(back, i, DEPTH));
			return std::move(back);
		}));
	for (int i = 0; i < PASSING; i += 2)
		continuations[i] = continuations[i].resume();
	return sum;
}

static void once(void)
{
	long sum = 0;

	works = deepers = fails = caught = unwound = 0;
	for (int number = 0; number < TURNS; number++)
		turn(number);
	sum += passing();
	for (auto &each : standing)
		sum += each.state;
	printf("%lx %ld %ld %ld %ld %ld\n", sum, works.load(), deepers.load(), fails.load(), caught.load(), unwound.load());
	fflush(stdout);
}

int main(int argc, char **argv)
{
	(void)argv;
	standing.reserve(FIBERS);
	for (int i = 0; i < FIBERS; i++)
		standing.emplace_back(i);
	int status = attend(argc, once);
	standing.clear();
	return unwound ? status : 1;
}
