// bench/framework/options.cpp -- the command line of verge-bench.

#include "framework/options.hpp"

#include "framework/text.hpp"
#include "framework/workload.hpp"

#include <algorithm>
#include <set>

namespace bench {
namespace {

// Every parameter is a flag, also while no workload with it is built.
std::set<std::string> parameter_names() {
    std::set<std::string> names{"threads", "window",  "n",      "order", "load",
                                "spread",  "workers", "fibers", "from",  "shards"};
    for (const workload& work : workloads()) {
        for (const parameter& param : work.params) {
            names.insert(param.name);
        }
    }
    return names;
}

// All of them as flags, in lines for usage().
std::string parameter_flags() {
    constexpr std::size_t width = 65;
    std::string lines;
    std::string line;
    for (const std::string& name : parameter_names()) {
        if (line.size() + name.size() > width) {
            lines += line + "\n               ";
            line.clear();
        }
        line += (line.empty() ? "--" : " --") + name;
    }
    return lines + line;
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
}

// "a,b,a" is a, b: asking twice is not asking for two runs.
std::vector<std::string> parse_list(const std::string& flag, const std::string& text) {
    std::vector<std::string> items;
    for (std::string& item : split(text, ',')) {
        if (item.empty()) throw usage_error(flag + ": an empty value in '" + text + "'");
        if (!contains(items, item)) items.push_back(std::move(item));
    }
    return items;
}

void check_known(const std::string& flag, const std::vector<std::string>& given,
                 const std::vector<std::string>& known) {
    for (const std::string& name : given) {
        if (!contains(known, name)) {
            throw usage_error(flag + ": unknown '" + name + "' (there are " + join(known, ", ") +
                              ")");
        }
    }
}

// A value must be good for a selected workload that has the parameter; if none has it, for any that
// does, so that a typing error is never swallowed.
void check_values(const options& given) {
    for (const auto& [name, values] : given.values) {
        std::vector<const parameter*> used, unused;
        for (const workload& work : workloads()) {
            const bool selected = given.works.empty() || contains(given.works, work.name);
            for (const parameter& param : work.params) {
                if (param.name == name) (selected ? used : unused).push_back(&param);
            }
        }
        const std::vector<const parameter*>& asked = used.empty() ? unused : used;
        for (const std::string& value : values) {
            const auto rejects = [&](const parameter* p) { return !p->takes(value); };
            if (asked.empty() || !std::all_of(asked.begin(), asked.end(), rejects)) continue;
            throw usage_error("--" + name + ": '" + value + "' is not " +
                              asked.front()->what_it_takes());
        }
    }
}

class parser {
public:
    explicit parser(const std::vector<std::string>& arguments) : arguments_(arguments) {}

    options run() {
        bool all = false;
        const std::set<std::string> names = parameter_names();
        while (next_ < arguments_.size()) {
            take_flag();
            if (flag_ == "--help" || flag_ == "-h") {
                plain(result_.help);
            } else if (flag_ == "--list") {
                plain(result_.list);
            } else if (flag_ == "--all") {
                plain(all);
            } else if (flag_ == "--quick") {
                plain(result_.quick);
            } else if (flag_ == "--work") {
                result_.works = parse_list(flag_, value());
            } else if (flag_ == "--peers") {
                result_.peers = parse_list(flag_, value());
            } else if (flag_ == "--seconds") {
                result_.seconds = seconds(value());
            } else if (flag_ == "--repeat") {
                result_.repeat = repeat(value());
            } else if (flag_ == "--json") {
                result_.json = value();
                if (result_.json.empty()) throw usage_error("--json: no file name");
            } else if (flag_.starts_with("--") && names.contains(flag_.substr(2))) {
                result_.values[flag_.substr(2)] = parse_list(flag_, value());
            } else {
                throw usage_error("unknown option '" + flag_ + "' (--help shows all)");
            }
        }
        if (all && !result_.works.empty()) throw usage_error("--all and --work exclude each other");
        return result_;
    }

private:
    // "--flag value" and "--flag=value" are the same.
    void take_flag() {
        const std::string& argument = arguments_[next_++];
        const std::size_t equals = argument.find('=');
        has_attached_ = argument.starts_with("--") && equals != std::string::npos;
        flag_ = has_attached_ ? argument.substr(0, equals) : argument;
        attached_ = has_attached_ ? argument.substr(equals + 1) : "";
    }

    void plain(bool& target) {
        if (has_attached_) throw usage_error(flag_ + " takes no value");
        target = true;
    }

    std::string value() {
        if (has_attached_) return attached_;
        if (next_ == arguments_.size()) throw usage_error(flag_ + " needs a value");
        return arguments_[next_++];
    }

    static double seconds(const std::string& text) {
        const auto number = parse_number(text);
        if (!number || *number <= 0 || *number > 3600) {
            throw usage_error("--seconds: '" + text + "' is not a number above 0, at most 3600");
        }
        return *number;
    }

    static std::size_t repeat(const std::string& text) {
        const auto number = parse_integer(text);
        if (!number || *number < 1 || *number > 1000) {
            throw usage_error("--repeat: '" + text + "' is not an integer from 1 to 1000");
        }
        return *number;
    }

    const std::vector<std::string>& arguments_;
    std::size_t next_ = 0;
    std::string flag_;
    std::string attached_;
    bool has_attached_ = false;
    options result_;
};

}  // namespace

options parse_options(const std::vector<std::string>& arguments) {
    options result = parser(arguments).run();
    std::vector<std::string> works;
    for (const workload& work : workloads()) {
        works.push_back(work.name);
    }
    check_known("--work", result.works, works);
    check_known("--peers", result.peers, known_peers());
    check_values(result);
    return result;
}

std::string usage() {
    return "usage: verge-bench [--all | --work A,B] [--peers A,B] [--quick] [--seconds S]\n"
           "                   [--repeat N] [--json FILE] [--PARAMETER A,B ...]\n"
           "       verge-bench --list\n"
           "\n"
           "  --all        every workload (the default)\n"
           "  --work       these workloads\n"
           "  --peers      these peers\n"
           "  --quick      small sizes, one short run: proves that everything works\n"
           "  --seconds    of one run; some workloads count operations instead, in proportion\n"
           "  --repeat     runs of each peer, interleaved; the figure is their median (default 5)\n"
           "  --json       append one JSON object a line for each figure\n"
           "  parameters   " +
           parameter_flags() +
           "\n"
           "               values separated by commas; --list shows who has which\n";
}

}  // namespace bench
