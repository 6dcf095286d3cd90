// A strict reader of Prometheus' text format 0.0.4: the oracle for what writes it.
//
// It is written from the format's description, takes nothing that the description does not allow
// (no blank lines, no time stamps, HELP and TYPE required, in this order), and unescapes what it
// reads.  It says what is wrong by throwing std::runtime_error.

#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace verge::test {

struct prometheus_metric {
    std::string name;
    std::string type;
    std::string help;
    std::map<std::map<std::string, std::string>, std::string> values;  // by their labels
};

class prometheus_parser {
public:
    explicit prometheus_parser(std::string_view text) : left_(text) {}

    std::vector<prometheus_metric> parse() {
        std::vector<prometheus_metric> metrics;
        std::set<std::string> names;
        while (!left_.empty()) {
            prometheus_metric m;
            expect("# HELP ");
            m.name = name(true);
            expect(" ");
            m.help = unescaped('\n', false);
            expect("\n# TYPE " + m.name + ' ');
            m.type = until('\n');
            if (m.type != "counter" && m.type != "gauge") fail("type " + m.type);
            if (m.type == "counter" && !m.name.ends_with("_total")) fail("name of a counter");
            expect("\n");
            if (!names.insert(m.name).second) fail(m.name + " stands twice");
            while (!left_.empty() && left_.front() != '#')
                series(m);
            if (m.values.empty()) fail(m.name + " has no values");
            metrics.push_back(m);
        }
        return metrics;
    }

private:
    [[noreturn]] void fail(const std::string& what) const {
        throw std::runtime_error(what + ", before: " + std::string(left_.substr(0, 80)));
    }
    char next() {
        if (left_.empty()) fail("the text ends");
        const char c = left_.front();
        left_.remove_prefix(1);
        return c;
    }
    void expect(std::string_view what) {
        if (!left_.starts_with(what)) fail("expected " + std::string(what));
        left_.remove_prefix(what.size());
    }
    std::string until(char end) {
        const std::size_t size = left_.find(end);
        if (size == std::string_view::npos) fail("the line does not end");
        std::string text(left_.substr(0, size));
        left_.remove_prefix(size);
        return text;
    }
    std::string name(bool of_metric) {
        constexpr std::string_view letters =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
        constexpr std::string_view digits = "0123456789";
        std::string text;
        while (!left_.empty() && (letters.find(left_.front()) != std::string_view::npos ||
                                  (of_metric && left_.front() == ':') ||
                                  (!text.empty() && digits.find(left_.front()) != digits.npos)))
            text += next();
        if (text.empty()) fail("expected a name");
        if (!of_metric && text.starts_with("__")) fail("a label of Prometheus itself");
        return text;
    }
    std::string unescaped(char end, bool quotes) {
        std::string text;
        while (!left_.empty() && left_.front() != end) {
            char c = next();
            if (c == '\n' || c == '\0') fail("a raw control character");
            if (c == '\\') {
                c = next();
                if (c == 'n') {
                    c = '\n';
                } else if (c != '\\' && !(c == '"' && quotes)) {
                    fail("unknown escape");
                }
            }
            text += c;
        }
        return text;
    }
    void series(prometheus_metric& m) {
        if (name(true) != m.name) fail("a value of another metric");
        std::map<std::string, std::string> labels;
        if (left_.starts_with('{')) {
            do {
                next();
                const std::string label = name(false);
                expect("=\"");
                if (!labels.emplace(label, unescaped('"', true)).second) fail("a label twice");
                expect("\"");
            } while (left_.starts_with(','));
            expect("}");
        }
        expect(" ");
        std::string value = until('\n');
        if (value != "NaN" && value != "+Inf" && value != "-Inf") {
            std::size_t used = 0;
            try {
                static_cast<void>(std::stod(value, &used));
            } catch (const std::out_of_range&) {
                used = value.size();  // smaller than the least normal number: a number all the same
            } catch (const std::invalid_argument&) {
            }
            if (used != value.size() || value.find_first_of("xXpP ") != value.npos) {
                fail("no number: " + value);
            }
        }
        expect("\n");
        if (!m.values.emplace(labels, value).second) fail("the same labels twice");
    }

    std::string_view left_;
};

inline std::vector<prometheus_metric> parsed_prometheus(std::string_view text) {
    return prometheus_parser(text).parse();
}

}  // namespace verge::test
