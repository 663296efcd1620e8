// Fast reading of lines that are alike: rows of tables and fields name=value, whose lines have the same text but for
// numbers and words.
//
// It reads a block of whole lines at a time, and only plain spellings. For anything else it returns None; then a reader
// in Python, which knows every spelling and can say what is wrong, reads the block.
#include <charconv>
#include <string_view>
#include <unordered_map>

#include "binding.hpp"

namespace lpmert {

namespace {

constexpr double EXACT_INTEGERS = 9007199254740992.0;  // 2**53: below, float64 rounds no integer
constexpr double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int LARGEST_POWER = 22;             // 10**22 is the largest power of ten that a double holds exactly
constexpr int MOST_DIGITS = 19;               // all numbers with so many digits fit into 64 bits
constexpr std::size_t LONGEST = 63;           // bytes of a number; Python reads longer ones
constexpr std::size_t MOST_OF_COUNT = 18;     // digits of a count, as in all formats
constexpr std::size_t LONGEST_CELL = 131072;  // Python's csv rejects longer ones
constexpr std::string_view BLANKS = " \t";

// The cells between literal texts. NUMBER: any number; COUNT: a whole number from 0, in digits; WORD: one of a few
// words; TEXT: any text; SKIPPED: a cell that must be there, but is not returned.
enum Cell : int { NUMBER, COUNT, WORD, TEXT, SKIPPED, N_CELLS };

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether a text spells a plain number below 2**53; if so, set the nearest double. Integers up to 2**53 and powers of
// ten up to 10**22 are doubles, so one product or quotient of them is rounded once and correctly (W. D. Clinger, How to
// read floating point numbers accurately, PLDI 1990). Numbers with more digits are converted by Python.
bool number_of(std::string_view text, double& value) {
    if (text.size() > LONGEST) return false;
    const char *at = text.data(), *const end = at + text.size();
    const bool negative = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+')) ++at;
    std::uint64_t digits = 0;
    int n_digits = 0, n_behind = 0;
    bool any = false, point = false;
    for (; at != end && (is_digit(*at) || (*at == '.' && !point)); ++at) {
        point = point || *at == '.';
        if (*at == '.') continue;
        any = true;
        n_behind += point;
        if (n_digits == 0 && *at == '0') continue;
        if (++n_digits <= MOST_DIGITS) digits = 10 * digits + static_cast<std::uint64_t>(*at - '0');
    }
    int power = 0;
    if (any && at != end && (*at == 'e' || *at == 'E')) {
        const char* const first = at + 1 + (end - at > 2 && at[1] == '+' && is_digit(at[2]));
        const auto [stop, error] = std::from_chars(first, end, power);
        if (error == std::errc()) at = stop;
    }
    const bool small = power >= n_behind - LARGEST_POWER && power <= n_behind + LARGEST_POWER;
    if (any && at == end && n_digits <= MOST_DIGITS && digits <= static_cast<std::uint64_t>(EXACT_INTEGERS) && small) {
        const double whole = static_cast<double>(digits);
        value = power < n_behind ? whole / POWERS[n_behind - power] : whole * POWERS[power - n_behind];
        if (negative) value = -value;
    } else {
        char copy[LONGEST + 1];
        std::memcpy(copy, text.data(), text.size());
        copy[text.size()] = '\0';
        char* stop = nullptr;
        value = PyOS_string_to_double(copy, &stop, nullptr);
        if (PyErr_Occurred() != nullptr) PyErr_Clear();
        if (stop != copy + text.size() || text.empty()) return false;
    }
    return value < EXACT_INTEGERS && value > -EXACT_INTEGERS;
}

nb::str string_of(std::string_view text) { return nb::str(text.data(), text.size()); }

// Remove the next line from the text, and return it without its end (LF or CRLF).
std::string_view next_line(std::string_view& left) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    return line;
}

// Remove a literal from the beginning of the line; return false if it is not there. loose: a blank stands for any
// blanks.
bool take(std::string_view& line, std::string_view literal, bool loose) {
    if (!loose) {
        if (line.substr(0, literal.size()) != literal) return false;
        line.remove_prefix(literal.size());
        return true;
    }
    for (const char c : literal) {
        const std::size_t n = c == ' ' ? std::min(line.find_first_not_of(BLANKS), line.size())
                                       : std::size_t{!line.empty() && line[0] == c};
        if (n == 0) return false;
        line.remove_prefix(n);
    }
    return true;
}

// Return where a cell before this literal ends: at the run of equal characters with which the literal begins.
std::size_t end_of_cell(std::string_view line, std::string_view literal, bool loose) {
    if (literal.empty()) return line.size();
    if (loose && literal[0] == ' ') return line.find_first_of(BLANKS);
    return line.find(literal.substr(0, std::min(literal.find_first_not_of(literal[0]), literal.size())));
}

nb::object read_alike(const nb::bytes& data, const std::vector<std::string>& literals,
                      const std::vector<std::int8_t>& cells, bool loose, const std::string& refused,
                      Rows<double> numbers) {
    if (literals.size() != cells.size() + 1) throw std::invalid_argument("literals must be one more than cells");
    Index n_columns = 0;
    for (const auto cell : cells) {
        if (cell < 0 || cell >= N_CELLS) throw std::invalid_argument("cells must be of kinds that there are");
        n_columns += Index{cell == NUMBER || cell == COUNT || cell == WORD};
    }
    check_size(numbers.columns(), n_columns, "the rows of numbers");
    std::string_view left(data.c_str(), data.size()), last;
    double last_place = 0.0;
    std::unordered_map<std::string_view, Index> places;
    nb::list words, texts;
    for (Index row = 0; row < numbers.rows(); ++row) {
        if (left.empty()) return nb::none();
        std::string_view line = next_line(left);
        if (loose) line = line.substr(0, line.find_last_not_of(BLANKS) + 1);
        if (!take(line, literals[0], loose)) return nb::none();
        Index column = 0;
        for (std::size_t k = 0; k < cells.size(); ++k) {
            const std::string& after = literals[k + 1];
            const std::size_t end = end_of_cell(line, after, loose);
            if (end == line.npos || end > LONGEST_CELL) return nb::none();
            const std::string_view cell = line.substr(0, end);
            if (!refused.empty() && cell.find(refused) != cell.npos) return nb::none();
            double value = 0.0;
            if (cells[k] == NUMBER) {
                if (!number_of(cell, value)) return nb::none();
            } else if (cells[k] == COUNT) {
                if (cell.size() > MOST_OF_COUNT || !std::all_of(cell.begin(), cell.end(), is_digit) ||
                    !number_of(cell, value))
                    return nb::none();
            } else if (cells[k] == WORD) {
                if (cell.empty()) return nb::none();
                if (cell != last || row == 0) {
                    const auto [place, fresh] = places.try_emplace(cell, static_cast<Index>(places.size()));
                    if (fresh) words.append(string_of(cell));
                    last_place = static_cast<double>(place->second);
                    last = cell;
                }
                value = last_place;
            } else if (cells[k] == TEXT) {
                texts.append(string_of(cell));
            }
            if (cells[k] != TEXT && cells[k] != SKIPPED) numbers[row][column++] = value;
            line.remove_prefix(end);
            if (!take(line, after, loose)) return nb::none();
        }
        if (!line.empty()) return nb::none();
    }
    if (!left.empty()) return nb::none();
    return nb::make_tuple(words, texts);
}

}  // namespace

void bind_reading(nb::module_& module) {
    module.def("read_alike", &read_alike, "data"_a, "literals"_a, "cells"_a, "loose"_a, "refused"_a, "numbers"_a);
}

}  // namespace lpmert
