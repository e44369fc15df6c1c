// SPDX-License-Identifier: LGPL-2.1-or-later
// Functions that C++ gives long names: overloads, operators, templates, constructors, and one without a linkage.
#include <cstdio>
#include <string>
#include <vector>
#include <stdexcept>
namespace ns {
struct Base { Base(int n); virtual ~Base(); int n; };
__attribute__((noinline)) Base::Base(int n) : n(n) { asm volatile("" ::: "memory"); }
Base::~Base() {}
struct Engine : Base {
	Engine() : Base(3) {}
	int update(int by);
	int update(const std::string &word);
	bool operator==(const Engine &other) const;
};
__attribute__((noinline)) int Engine::update(int by) { asm volatile("" ::: "memory"); return n += by; }
__attribute__((noinline)) int Engine::update(const std::string &word) { asm volatile("" ::: "memory"); return n += word.size(); }
__attribute__((noinline)) bool Engine::operator==(const Engine &other) const { asm volatile("" ::: "memory"); return n == other.n; }
template <typename T> __attribute__((noinline)) T twice(T value) { asm volatile("" ::: "memory"); return value + value; }
namespace { __attribute__((noinline)) int hidden(int x) { asm volatile("" ::: "memory"); return x + 1; } }
int all() {
	Engine one, two;
	int sum = 0;
	for (int i = 0; i < 10; i++) { sum += one.update(i); }
	for (int i = 0; i < 5; i++) { sum += two.update(std::string("abc")); }
	sum += one == two;
	sum += twice<int>(4) + twice<long>(5);
	return sum + hidden(3);
}
}
int main() { printf("%d\n", ns::all()); }
