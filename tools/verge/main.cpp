// tools/verge/main.cpp -- the verge program: its commands.

#include "commands.hpp"

#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

namespace {

// One clear line, whatever was wrong with the command line.
int complain(std::string what) {
    for (char& c : what) {
        if (c == '\n') c = ' ';
    }
    std::fprintf(stderr, "verge: %s (see verge --help)\n", what.c_str());
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App program("Verge: timers for C++, by the million.", "verge");
    program.require_subcommand(1);
    program.set_version_flag("--version", "verge " VERGE_VERSION);
    int status = 0;
    verge::tool::add_demo(program, status);
    verge::tool::add_serve(program, status);
    verge::tool::add_bench(program, status);
    verge::tool::add_doctor(program, status);
    verge::tool::add_completion(program, status);
    try {
        program.parse(argc, argv);
        return status;
    } catch (const CLI::CallForHelp& help) {
        return program.exit(help);
    } catch (const CLI::CallForAllHelp& help) {
        return program.exit(help);
    } catch (const CLI::CallForVersion& version) {
        return program.exit(version);
    } catch (const CLI::ParseError& error) {
        return complain(error.what());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "verge: %s\n", error.what());
        return 2;
    }
}
