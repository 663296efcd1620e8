// Open nodes outside of a search: as bytes for queues, files and other machines, and as dictionaries for Python.
//
// Each kind of node lists its fields once, in `each_field(node, visit)`; the classes here are the visitors. Ascending
// row numbers are stored as a bit set where that is smaller.
#pragma once

#include "binding.hpp"

namespace lpmert {

class Packer {
  public:
    Bytes bytes;

    template <class T>
    void operator()(const char*, const T& number) {
        append(&number, sizeof number);
    }
    template <class T, class Allocator>
    void operator()(const char*, const std::vector<T, Allocator>& items) {
        if constexpr (std::is_same_v<T, Row>) {
            if (append_bits(items)) return;
        }
        append_size(items.size());
        append(items.data(), items.size() * sizeof(T));
    }

  private:
    template <class Rows>
    bool append_bits(const Rows& rows) {
        bool ascending = !rows.empty() && rows.back() >= 0 && 8 * rows.size() >= static_cast<std::size_t>(rows.back());
        for (std::size_t i = 1; ascending && i < rows.size(); ++i) ascending = rows[i - 1] < rows[i];
        append_size(ascending ? static_cast<std::size_t>(rows.back()) + 1 : 0);
        if (!ascending) return false;
        const std::size_t begin = bytes.size();
        bytes.resize(begin + static_cast<std::size_t>(rows.back()) / 8 + 1);
        for (const auto row : rows) {
            const auto place = static_cast<std::size_t>(row);
            bytes[begin + place / 8] = static_cast<std::uint8_t>(bytes[begin + place / 8] | 1 << place % 8);
        }
        return true;
    }
    void append(const void* items, std::size_t size) {
        const auto* const first = static_cast<const std::uint8_t*>(items);
        bytes.insert(bytes.end(), first, first + size);
    }
    void append_size(std::size_t size) { append(&size, sizeof size); }
};

class Unpacker {
  public:
    explicit Unpacker(Span<const std::uint8_t> bytes) : next_(bytes.begin()), end_(bytes.end()) {}

    template <class T>
    void operator()(const char*, T& number) {
        std::memcpy(&number, take(1, sizeof number), sizeof number);
    }
    template <class T, class Allocator>
    void operator()(const char*, std::vector<T, Allocator>& items) {
        if constexpr (std::is_same_v<T, Row>) {
            if (take_bits(items)) return;
        }
        const std::size_t size = take_size();
        const std::uint8_t* const place = take(size, sizeof(T));
        items.resize(size);
        if (size > 0) std::memcpy(items.data(), place, size * sizeof(T));
    }
    // Raise ValueError if bytes are left.
    void finish() const {
        if (next_ != end_) throw std::invalid_argument("an open node has too many bytes");
    }

  private:
    template <class Rows>
    bool take_bits(Rows& rows) {
        const std::size_t n = take_size();
        if (n == 0) return false;
        const std::uint8_t* const bits = take((n - 1) / 8 + 1, 1);
        rows.clear();
        for (std::size_t i = 0; i < n; ++i)
            if (bits[i / 8] >> i % 8 & 1) rows.push_back(static_cast<typename Rows::value_type>(i));
        return true;
    }
    const std::uint8_t* take(std::size_t count, std::size_t size) {
        if (count > static_cast<std::size_t>(end_ - next_) / size)
            throw std::invalid_argument("an open node has too few bytes");
        next_ += count * size;
        return next_ - count * size;
    }
    std::size_t take_size() {
        std::size_t size = 0;
        (*this)("", size);
        return size;
    }

    const std::uint8_t *next_, *end_;
};

// Writes fields into a dictionary.
class DictWriter {
  public:
    nb::dict fields;

    template <class T>
    void operator()(const char* name, const T& number) {
        fields[name] = number;
    }
    template <class T, class Allocator>
    void operator()(const char* name, const std::vector<T, Allocator>& items) {
        fields[name] = std::vector<T>(items.begin(), items.end());
    }
};

// Reads fields from a dictionary; fields that it lacks stay as they are.
class DictReader {
  public:
    explicit DictReader(const nb::dict& fields) : fields_(fields) {}

    template <class T>
    void operator()(const char* name, T& number) {
        if (fields_.contains(name)) number = nb::cast<T>(fields_[name]);
    }
    template <class T, class Allocator>
    void operator()(const char* name, std::vector<T, Allocator>& items) {
        if (!fields_.contains(name)) return;
        Span<const T> array;
        if (!nb::try_cast(fields_[name], array))
            throw nb::type_error((name + std::string(" is another array")).c_str());
        items.assign(array.begin(), array.end());
    }

  private:
    const nb::dict& fields_;
};

template <class Node>
Bytes packed(const Node& node) {
    Packer packer;
    Node::each_field(node, packer);
    return std::move(packer.bytes);
}

// Fill a node from bytes; raises ValueError if they are too few or too many.
template <class Node>
void unpack(Span<const std::uint8_t> bytes, Node& node) {
    Unpacker unpacker(bytes);
    Node::each_field(node, unpacker);
    unpacker.finish();
}

}  // namespace lpmert
