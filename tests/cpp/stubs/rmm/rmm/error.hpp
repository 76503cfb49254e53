// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
#include <new>
#include <string>

namespace rmm {
class bad_alloc : public std::bad_alloc
{
public:
	bad_alloc(const char *text) : text_(text) {}
	const char *what() const noexcept override { return text_.c_str(); }

private:
	std::string text_;
};
class out_of_memory : public bad_alloc
{
public:
	out_of_memory(const char *text) : bad_alloc(text) {}
};
}
