// Numbers and words in text: rows of tables, and fields name=value of lattices, a block of whole lines at a time. Only
// what is plain is read; None says that a reader in Python, which knows every spelling and says what is wrong, must
// look.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "arrays.hpp"

namespace lpmert {

namespace {

constexpr double EXACT_INTEGERS = 9007199254740992.0;  // 2**53: below, float64 rounds no integer
constexpr double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int LARGEST_POWER = 22;             // 10**22 is the largest power of ten that a double holds exactly
constexpr int MOST_DIGITS = 19;               // that any 64-bit number has
constexpr std::size_t LONGEST = 63;           // bytes of a number; longer ones are left to Python
constexpr int LARGEST_WRITTEN = 999;          // exponent
constexpr std::size_t MOST_OF_COUNT = 18;     // digits, as everywhere in formats
constexpr std::size_t LONGEST_CELL = 131072;  // Python's csv refuses longer ones

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether a text spells a plain number below 2**53, which is then the nearest double. Integers up to 2**53 and powers
// of ten up to 10**22 are doubles, so that one product or quotient of them is rounded once (W. D. Clinger, How to read
// floating point numbers accurately, PLDI 1990); Python reads what has more digits.
bool number_of(std::string_view text, double& value) {
    if (text.size() > LONGEST) return false;
    const char *at = text.data(), *const end = at + text.size();
    const bool negative = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+')) ++at;
    std::uint64_t digits = 0;
    int n_digits = 0, power = 0;
    bool any = false;
    const auto take = [&](int step) {
        for (; at != end && is_digit(*at); ++at) {
            any = true;
            power += step;
            if (n_digits == 0 && *at == '0') continue;
            if (++n_digits <= MOST_DIGITS) digits = 10 * digits + static_cast<std::uint64_t>(*at - '0');
        }
    };
    take(0);
    if (at != end && *at == '.') {
        ++at;
        take(-1);
    }
    if (!any) return false;
    if (at != end && (*at == 'e' || *at == 'E')) {
        ++at;
        const bool below = at != end && *at == '-';
        if (at != end && (*at == '-' || *at == '+')) ++at;
        if (at == end) return false;
        int written = 0;
        for (; at != end && is_digit(*at); ++at) {
            written = 10 * written + (*at - '0');
            if (written > LARGEST_WRITTEN) return false;
        }
        power += below ? -written : written;
    }
    if (at != end) return false;
    if (n_digits <= MOST_DIGITS && digits <= static_cast<std::uint64_t>(EXACT_INTEGERS) && power >= -LARGEST_POWER &&
        power <= LARGEST_POWER) {
        const double whole = static_cast<double>(digits);
        value = power < 0 ? whole / POWERS[-power] : whole * POWERS[power];
        if (negative) value = -value;
    } else {
        char copy[LONGEST + 1];
        std::memcpy(copy, text.data(), text.size());
        copy[text.size()] = '\0';
        char* stop = nullptr;
        value = PyOS_string_to_double(copy, &stop, nullptr);
        if (PyErr_Occurred() != nullptr) {
            PyErr_Clear();
            return false;
        }
        if (stop != copy + text.size()) return false;
    }
    return value < EXACT_INTEGERS && value > -EXACT_INTEGERS;
}

std::string_view view_of(const nb::bytes& data) { return {data.c_str(), data.size()}; }

nb::str string_of(std::string_view text) { return nb::str(text.data(), text.size()); }

// Take the next line, without its end (LF or CRLF), off the text.
std::string_view next_line(std::string_view& left) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
}

nb::object read_rows(const nb::bytes& data, const std::string& separator, int key, int text, const Array& slots_,
                     const Writable& numbers_) {
    const Span<const std::int32_t> slots = vector<std::int32_t>(slots_, "slots");
    const Rows<double> numbers = matrix<double>(numbers_, "numbers");
    for (const std::int32_t slot : slots)
        if (slot >= numbers.columns()) throw std::invalid_argument("slots must name columns of numbers");
    if (separator.size() != 1) throw std::invalid_argument("separator must be one byte");
    std::string_view left = view_of(data), last;
    nb::list ids, sizes, texts;
    Index in_run = 0;
    for (Index row = 0; row < numbers.rows(); ++row) {
        if (left.empty()) return nb::none();
        std::string_view line = next_line(left);
        const Span<double> found = numbers[row];
        for (Index column = 0; column < slots.size(); ++column) {
            const std::size_t end = line.find(separator[0]);
            if ((end == line.npos) != (column == slots.size() - 1)) return nb::none();
            const std::string_view cell = line.substr(0, end);
            if (cell.size() > LONGEST_CELL) return nb::none();
            if (slots[column] >= 0 && !number_of(cell, found[slots[column]])) return nb::none();
            if (column == key) {
                if (cell.empty()) return nb::none();
                if (in_run != 0 && cell == last) {
                    ++in_run;
                } else {
                    if (in_run != 0) sizes.append(in_run);
                    ids.append(string_of(cell));
                    last = cell;
                    in_run = 1;
                }
            }
            if (column == text) texts.append(string_of(cell));
            if (end != line.npos) line.remove_prefix(end + 1);
        }
    }
    if (!left.empty()) return nb::none();
    if (in_run != 0) sizes.append(in_run);
    return nb::make_tuple(ids, sizes, texts);
}

nb::object read_fields(const nb::bytes& data, const std::vector<std::string>& names, int word, int n_whole,
                       const Writable& numbers_) {
    const Rows<double> numbers = matrix<double>(numbers_, "numbers");
    check_size(numbers.columns(), static_cast<Index>(names.size()), "the rows of numbers");
    std::string_view left = view_of(data);
    std::unordered_map<std::string_view, Index> places;
    nb::list words;
    for (Index row = 0; row < numbers.rows(); ++row) {
        if (left.empty()) return nb::none();
        std::string_view line = next_line(left);
        for (Index column = 0; column < numbers.columns(); ++column) {
            const std::string& name = names[column];
            if (line.size() <= name.size() || line.compare(0, name.size(), name) != 0 || line[name.size()] != '=')
                return nb::none();
            line.remove_prefix(name.size() + 1);
            const std::string_view value = line.substr(0, line.find_first_of(" \t\r\v\f"));
            // a quote that comes again in the line may hold blanks, and may have to be left out
            const bool in_quotes =
                !value.empty() && (value[0] == '"' || value[0] == '\'') && line.find(value[0], 1) != line.npos;
            line.remove_prefix(value.size());
            line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
            double& found = numbers[row][column];
            if (column == word) {
                if (value.empty() || in_quotes || value.find('\\') != value.npos) return nb::none();
                const auto [place, fresh] = places.try_emplace(value, static_cast<Index>(places.size()));
                if (fresh) words.append(string_of(value));
                found = static_cast<double>(place->second);
            } else if ((column < n_whole &&
                        (value.size() > MOST_OF_COUNT || !std::all_of(value.begin(), value.end(), is_digit))) ||
                       !number_of(value, found)) {
                return nb::none();
            }
        }
        if (!line.empty()) return nb::none();
    }
    if (!left.empty()) return nb::none();
    return words;
}

}  // namespace

void bind_reading(nb::module_& module) {
    using nb::literals::operator""_a;
    module.def("read_rows", &read_rows, "data"_a, "separator"_a, "key"_a, "text"_a, "slots"_a, "numbers"_a);
    module.def("read_fields", &read_fields, "data"_a, "names"_a, "word"_a, "n_whole"_a, "numbers"_a);
}

}  // namespace lpmert
