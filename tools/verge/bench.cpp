// tools/verge/bench.cpp -- `verge bench`: runs verge-bench, and draws its figures.
//
// verge-bench is a separate program: it links every peer, which this one need not.

#include "commands.hpp"
#include "html.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#define BOOST_BIND_GLOBAL_PLACEHOLDERS  // property_tree of Boost 1.74 would complain about itself
#include <pthread.h>
#include <signal.h>

#include <boost/property_tree/json_parser.hpp>
#include <boost/property_tree/ptree.hpp>
#include <fmt/format.h>
#include <spawn.h>

namespace verge::tool {

namespace {

namespace fs = std::filesystem;

// Beside this program, where the build puts it, or somewhere in PATH.
fs::path find_bench() {
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    for (const fs::path& place : {here / "verge-bench", here.parent_path() / "bench/verge-bench"}) {
        if (::access(place.c_str(), X_OK) == 0) return place;
    }
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (::access((folder + "/verge-bench").c_str(), X_OK) == 0) return folder + "/verge-bench";
    }
    throw std::runtime_error("bench: verge-bench was not built: scripts/run.sh bench builds it");
}

volatile std::sig_atomic_t running_child = 0;

// Runs a program to its end.  Ctrl-C and SIGTERM end it, not us: what it has found until then is
// still drawn.
int run_program(const fs::path& program, std::vector<std::string> arguments) {
    std::vector<char*> argv;
    std::string name = program.string();
    argv.push_back(name.data());
    for (std::string& a : arguments)
        argv.push_back(a.data());
    argv.push_back(nullptr);

    // Held back until we know whom to pass them on to; not so in the child.
    sigset_t ends;
    sigset_t before;
    ::sigemptyset(&ends);
    ::sigaddset(&ends, SIGINT);
    ::sigaddset(&ends, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &ends, &before);
    struct sigaction pass_on {};
    pass_on.sa_handler = [](int number) { ::kill(static_cast<pid_t>(running_child), number); };
    ::sigaction(SIGINT, &pass_on, nullptr);
    ::sigaction(SIGTERM, &pass_on, nullptr);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    ::posix_spawnattr_setsigmask(&attributes, &before);
    pid_t child = 0;
    const int error =
        ::posix_spawn(&child, program.c_str(), nullptr, &attributes, argv.data(), ::environ);
    ::posix_spawnattr_destroy(&attributes);
    if (error != 0) throw std::system_error(error, std::generic_category(), program.string());
    running_child = child;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

    int status = 0;
    while (::waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
    }
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct measured {
    std::string peer;
    double value;
};

// work -> "parameters, metric (unit)" -> the peers' figures, in the order of the file.
struct comparison {
    std::string title;
    std::string unit;
    std::vector<measured> peers;
};
using comparisons = std::vector<std::pair<std::string, std::vector<comparison>>>;

template <class List, class Same>
auto& find_or_add(List& list, Same&& same, typename List::value_type fresh) {
    const auto found = std::find_if(list.begin(), list.end(), same);
    return found != list.end() ? *found : list.emplace_back(std::move(fresh));
}

comparisons read_figures(const std::string& path, std::streamoff from) {
    std::ifstream file(path);
    file.seekg(from);
    comparisons all;
    for (std::string line; std::getline(file, line);) {
        if (file.eof()) break;  // a line that was cut off
        boost::property_tree::ptree figure;
        std::istringstream text(line);
        boost::property_tree::read_json(text, figure);
        const auto work = figure.get<std::string>("work");
        std::string title;
        for (const auto& [name, value] : figure.get_child("params")) {
            title += fmt::format("{} {}, ", name, value.data());
        }
        title += figure.get<std::string>("metric");
        auto& of_work =
            find_or_add(all, [&](const auto& w) { return w.first == work; }, {work, {}});
        comparison& one =
            find_or_add(of_work.second, [&](const comparison& c) { return c.title == title; },
                        {title, figure.get<std::string>("unit", ""), {}});
        one.peers.push_back({figure.get<std::string>("peer"), figure.get<double>("value", 0)});
    }
    return all;
}

std::string report_page(const comparisons& all) {
    std::vector<std::string> parts;
    for (const auto& [work, list] : all) {
        std::string part = "<h2>" + html_escaped(work) + "</h2>";
        for (const comparison& c : list) {
            std::vector<plot_bar> bars;
            for (const measured& m : c.peers)
                bars.push_back({m.peer, m.value, m.peer.starts_with("verge")});
            part += comparison_plot(c.title, c.unit, bars);
        }
        parts.push_back(std::move(part));
    }
    if (parts.empty()) parts.emplace_back("<p>Nothing was measured.</p>");
    return html_page("verge bench", parts);
}

// The value of `--json FILE` or `--json=FILE` among the arguments; "" if there is none.
std::string json_file(const std::vector<std::string>& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i] == "--json" && i + 1 < arguments.size()) return arguments[i + 1];
        if (arguments[i].starts_with("--json=")) return arguments[i].substr(7);
    }
    return "";
}

class temporary_file {
public:
    temporary_file() {
        const int fd = ::mkstemp(path.data());
        if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
        ::close(fd);
    }
    ~temporary_file() { ::unlink(path.c_str()); }
    temporary_file(const temporary_file&) = delete;
    temporary_file& operator=(const temporary_file&) = delete;

    std::string path = "/tmp/verge-bench-XXXXXX";
};

int run_bench(std::vector<std::string> arguments, const std::string& report) {
    const fs::path bench = find_bench();
    if (report.empty()) return run_program(bench, std::move(arguments));
    std::ofstream page(report);
    if (!page) throw std::runtime_error("bench: --report: cannot write '" + report + "'");
    const temporary_file scratch;
    std::string figures = json_file(arguments);
    if (figures.empty()) {
        figures = scratch.path;
        arguments.insert(arguments.end(), {"--json", figures});
    }
    // verge-bench appends to the file: what was there before is not of this run.
    std::error_code none_yet;
    const auto before = fs::file_size(figures, none_yet);
    const int status = run_program(bench, std::move(arguments));
    page << report_page(read_figures(figures, none_yet ? 0 : static_cast<std::streamoff>(before)));
    page.close();
    if (!page) throw std::runtime_error("bench: --report: could not write all of '" + report + "'");
    return status;
}

}  // namespace

void add_bench(CLI::App& program, int& status) {
    CLI::App* const command = program.add_subcommand(
        "bench",
        "Workloads on Verge and its peers; takes what verge-bench takes, see bench --list");
    const CLI::Option* const report =
        command->add_option("--report", "Draw the comparison into this HTML file")
            ->type_name("FILE");
    command->allow_extras();
    command->footer(
        "All other options are verge-bench's own: verge bench -- --help shows them.\n"
        "--json FILE appends one JSON object a line for each figure.");
    command->callback([command, report, &status] {
        std::vector<std::string> arguments = command->remaining();
        std::erase(arguments, "--");
        status = run_bench(std::move(arguments), report->empty() ? "" : report->as<std::string>());
    });
}

}  // namespace verge::tool
