// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
#include <exception>
#include <string>

namespace faiss {
class FaissException : public std::exception
{
public:
	explicit FaissException(const std::string &text) : text_(text) {}
	const char *what() const noexcept override { return text_.c_str(); }

private:
	std::string text_;
};
}
