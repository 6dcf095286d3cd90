// src/observe/prometheus.cpp -- valid names, escaping, and the text exposition format.

#include <verge/observe/prometheus.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace verge {

namespace {

bool is_letter(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

// A colon is valid in the name of a metric, but reserved for recording rules.
std::string valid_name(std::string_view text) {
    std::string name;
    if (text.empty() || is_digit(text.front())) name = '_';
    for (const char c : text)
        name += is_letter(c) || is_digit(c) ? c : '_';
    return name;
}

// Two leading underscores are reserved for Prometheus: __name__ would rename the metric.
std::string valid_label_name(std::string_view text) {
    const std::string name = valid_name(text);
    const std::size_t first = std::min(name.find_first_not_of('_'), name.size());
    return first < 2 ? name : name.substr(first - 1);
}

// The length of the first character in bytes; 0 if it is not valid UTF-8.
std::size_t utf8_size(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t size = first >= 0xf5 ? 0 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || size == 0 || text.size() < size) return 0;
    for (std::size_t i = 1; i < size; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
    }
    // Overlong encodings, surrogates, code points above U+10FFFF.
    if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
        (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) {
        return 0;
    }
    return size;
}

std::string escaped(std::string_view text, bool quotes) {
    std::string result;
    while (!text.empty()) {
        const std::size_t size = utf8_size(text);
        const char c = text.front();
        if (c == '\n') {
            result += "\\n";
        } else if (c == '\\' || (c == '"' && quotes)) {
            result += '\\';
            result += c;
        } else if (size == 0 || (static_cast<unsigned char>(c) < 0x20 && c != '\t')) {
            result += '?';
        } else {
            result += text.substr(0, size);
        }
        text.remove_prefix(std::max<std::size_t>(size, 1));
    }
    return result;
}

}  // namespace

prometheus_text& prometheus_text::add_value(std::string_view name, stat_kind kind, double value,
                                            std::string_view help,
                                            std::initializer_list<prometheus_label> labels) {
    std::array<char, 32> digits{};  // the shortest form that round-trips has at most 24
    std::string text;
    if (std::isnan(value)) {
        text = "NaN";
    } else if (std::isinf(value)) {
        text = value > 0 ? "+Inf" : "-Inf";
    } else {
        text.assign(digits.data(),
                    std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
    }
    put(name, kind, std::move(text), help,
        written_labels(std::span(labels.begin(), labels.size())));
    return *this;
}

std::string prometheus_text::written_labels(std::span<const prometheus_label> labels) {
    std::vector<std::pair<std::string, std::string_view>> valid;
    for (const auto& [name, value] : labels)
        valid.emplace_back(valid_label_name(name), value);
    std::stable_sort(valid.begin(), valid.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    valid.erase(std::unique(valid.begin(), valid.end(),
                            [](const auto& a, const auto& b) { return a.first == b.first; }),
                valid.end());
    std::string written;
    for (const auto& [name, value] : valid) {
        written += written.empty() ? '{' : ',';
        written += name + "=\"" + escaped(value, true) + '"';
    }
    if (!written.empty()) written += '}';
    return written;
}

void prometheus_text::put(std::string_view name, stat_kind kind, std::string value,
                          std::string_view help, const std::string& labels) {
    std::string whole = prefix_;
    if (!whole.empty()) whole += '_';
    whole = valid_name(whole.append(name));
    constexpr std::string_view total = "_total";
    if (kind == stat_kind::counter && !whole.ends_with(total)) whole += total;

    // Every snapshot of a type visits the same list, so it is usually the metric after the last.
    if (next_ >= metrics_.size() || metrics_[next_].name != whole) {
        const auto found = std::find_if(metrics_.begin(), metrics_.end(),
                                        [&](const metric& m) { return m.name == whole; });
        next_ = static_cast<std::size_t>(found - metrics_.begin());
        if (found == metrics_.end()) metrics_.push_back({whole, kind, escaped(help, false), {}});
    }
    std::vector<series>& told = metrics_[next_].told;
    ++next_;
    const auto same =
        std::find_if(told.begin(), told.end(), [&](const series& s) { return s.labels == labels; });
    if (same != told.end()) {
        same->value = std::move(value);
    } else {
        told.push_back({labels, std::move(value)});
    }
}

std::string prometheus_text::text() const {
    std::string text;
    for (const metric& m : metrics_) {
        text += "# HELP " + m.name + ' ' + m.help + '\n';
        text += "# TYPE " + m.name + (m.kind == stat_kind::counter ? " counter\n" : " gauge\n");
        for (const series& s : m.told) {
            text += m.name + s.labels + ' ' + s.value + '\n';
        }
    }
    return text;
}

}  // namespace verge
