// tools/verge/load_change.cpp -- parses and checks a change of the load.

#include "load_change.hpp"

#include "duration_text.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace verge::tool {

namespace {

int hex_value(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::string form_decoded(std::string_view text) {
    std::string decoded;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '+') {
            decoded += ' ';
        } else if (text[i] != '%') {
            decoded += text[i];
        } else {
            const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
            const int low = high >= 0 ? hex_value(text[i + 2]) : -1;
            if (low < 0) throw bad_text("% is not followed by two hexadecimal digits");
            decoded += static_cast<char>(high * 16 + low);
            i += 2;
        }
    }
    return decoded;
}

// Reads one flat object.
class json_reader {
public:
    explicit json_reader(std::string_view text) : left_(text) {}

    text_fields object() {
        text_fields fields;
        blank();
        take('{');
        if (!next_is('}')) {
            do {
                std::string name = string();
                take(':');
                fields.emplace_back(std::move(name), value());
            } while (next_is(','));
            take('}');
        }
        if (!left_.empty()) fail("text after the object");
        return fields;
    }

private:
    [[noreturn]] static void fail(std::string_view what) {
        throw bad_text(fmt::format("not the JSON that is expected: {}", what));
    }
    void blank() {
        while (!left_.empty() && std::string_view(" \t\r\n").find(left_.front()) != left_.npos)
            left_.remove_prefix(1);
    }
    bool next_is(char c) {
        if (!left_.starts_with(c)) return false;
        left_.remove_prefix(1);
        blank();
        return true;
    }
    void take(char c) {
        if (!next_is(c)) fail(fmt::format("no {} where one should be", c));
    }
    char any() {
        if (left_.empty()) fail("it ends too early");
        const char c = left_.front();
        left_.remove_prefix(1);
        return c;
    }
    std::string value() {
        if (left_.starts_with('"')) return string();
        constexpr std::string_view plain = "+-.0123456789abcdefghijklmnopqrstuvwxyzE";
        const std::size_t size = std::min(left_.find_first_not_of(plain), left_.size());
        std::string text(left_.substr(0, size));
        left_.remove_prefix(size);
        double number = 0;
        const char* const end = text.data() + text.size();
        const bool digit = !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
        if (text != "true" && text != "false" && text != "null" &&
            !(digit && std::from_chars(text.data(), end, number).ptr == end)) {
            fail("a value that is no string and no number");
        }
        blank();
        return text;
    }
    std::string string() {
        std::string text;
        if (any() != '"') fail("no string where one should be");
        for (char c = any(); c != '"'; c = any()) {
            if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
            if (c == '\\') {
                escape(text);
            } else {
                text += c;
            }
        }
        blank();
        return text;
    }
    void escape(std::string& text) {
        constexpr std::string_view letters = "\"\\/bfnrt";
        constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
        const char c = any();
        if (c == 'u') {
            std::uint32_t code = quad();
            if (code >= 0xd800 && code < 0xdc00) {
                if (any() != '\\' || any() != 'u') fail("half a character");
                const std::uint32_t low = quad();
                if (low < 0xdc00 || low > 0xdfff) fail("half a character");
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            } else if (code >= 0xdc00 && code <= 0xdfff) {
                fail("half a character");
            }
            add_utf8(text, code);
        } else if (const std::size_t which = letters.find(c); which != letters.npos) {
            text += meant[which];
        } else {
            fail("an unknown escape");
        }
    }
    std::uint32_t quad() {
        std::uint32_t code = 0;
        for (int i = 0; i < 4; ++i) {
            const int digit = hex_value(any());
            if (digit < 0) fail("\\u without four hexadecimal digits");
            code = code * 16 + static_cast<std::uint32_t>(digit);
        }
        return code;
    }
    static void add_utf8(std::string& text, std::uint32_t code) {
        const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
        const auto rest = [&](unsigned shift) { add(0x80 | ((code >> shift) & 0x3f)); };
        if (code < 0x80) {
            add(code);
        } else if (code < 0x800) {
            add(0xc0 | (code >> 6));
            rest(0);
        } else if (code < 0x10000) {
            add(0xe0 | (code >> 12));
            rest(6);
            rest(0);
        } else {
            add(0xf0 | (code >> 18));
            rest(12);
            rest(6);
            rest(0);
        }
    }

    std::string_view left_;
};

double rate_from(const std::string& text) {
    double rate = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, rate);
    if (error != std::errc() || stop != end || !(rate >= load_options::least_rate) ||
        !(rate <= load_options::most_rate)) {
        throw bad_text(fmt::format("rate must be a number from {:.0f} to {:.0f}",
                                   load_options::least_rate, load_options::most_rate));
    }
    return rate;
}

duration time_out_from(const std::string& text) {
    const std::optional<duration> time_out = parse_duration(text);
    if (!time_out || *time_out < load_options::least_time_out ||
        *time_out > load_options::most_time_out) {
        throw bad_text("timeout must be a time from 1ms to 60s, with its unit");
    }
    return *time_out;
}

template <class Value>
void set_once(std::optional<Value>& to, Value value, std::string_view name) {
    if (to) throw bad_text(fmt::format("{} stands there twice", name));
    to = std::move(value);
}

}  // namespace

text_fields fields_of_form(std::string_view text) {
    text_fields fields;
    while (!text.empty()) {
        const std::size_t size = std::min(text.find('&'), text.size());
        const std::string_view field = text.substr(0, size);
        text.remove_prefix(std::min(size + 1, text.size()));
        if (field.empty()) continue;
        const std::size_t name = std::min(field.find('='), field.size());
        fields.emplace_back(form_decoded(field.substr(0, name)),
                            form_decoded(field.substr(std::min(name + 1, field.size()))));
    }
    return fields;
}

text_fields fields_of_json(std::string_view text) {
    return json_reader(text).object();
}

load_change change_from(const text_fields& fields) {
    load_change change;
    std::optional<std::string> token;
    for (const auto& [name, value] : fields) {
        if (name == "rate") {
            set_once(change.rate, rate_from(value), name);
        } else if (name == "timeout") {
            set_once(change.time_out, time_out_from(value), name);
        } else if (name == "engine") {
            const std::optional<engine_kind> engine = engine_named(value);
            if (!engine) throw bad_text("engine must be thread, fiber or loop");
            set_once(change.engine, *engine, name);
        } else if (name == "token") {
            set_once(token, value, name);
        } else {
            throw bad_text("only rate, timeout and engine can be set");
        }
    }
    change.token = token.value_or("");
    return change;
}

}  // namespace verge::tool
