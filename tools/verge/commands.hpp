// tools/verge/commands.hpp -- the subcommands of the verge program.
//
// Each adds itself with its options, and leaves the program's exit code in `status` when it has
// run: 0 if all went well, 1 if what it checked is wrong, 2 if it was asked for something
// impossible.  An option that is wrong, alone or beside others, throws CLI::ValidationError; what
// the machine refuses throws std::runtime_error (std::system_error is one).  main() turns both into
// one line and exit code 2.

#pragma once

namespace CLI {
class App;
}

namespace verge::tool {

void add_demo(CLI::App& program, int& status);
void add_serve(CLI::App& program, int& status);
void add_bench(CLI::App& program, int& status);
void add_doctor(CLI::App& program, int& status);
void add_completion(CLI::App& program, int& status);

}  // namespace verge::tool
