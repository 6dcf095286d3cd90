// tools/verge/completion.cpp -- `verge completion bash`: made from the program's commands and
// options.

#include "commands.hpp"
#include "json.hpp"

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace verge::tool {

namespace {

std::string options_of(const CLI::App& command) {
    std::string words;
    for (const CLI::Option* option : command.get_options()) {
        if (option->get_group().empty()) continue;  // hidden
        for (const std::string& name : option->get_lnames())
            words += " --" + name;
    }
    return words;
}

std::string bash_script(const CLI::App& program) {
    std::string commands;
    std::string cases;
    for (const CLI::App* command : program.get_subcommands(nullptr)) {
        commands += " " + command->get_name();
        cases += fmt::format("                {}) words='{}' ;;\n", command->get_name(),
                             options_of(*command).substr(1));
    }
    return fmt::format(R"(# Bash completion for verge.  To use it:  source <(verge completion bash)
_verge() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} words
    case $previous in
        --engine) words='thread fiber loop' ;;
        --report | --json)
            [[ $previous = --report || ${{COMP_WORDS[1]}} = bench ]] &&
                {{ mapfile -t COMPREPLY < <(compgen -f -- "$current"); return; }} ;;
        completion) words='bash' ;;
    esac
    if [[ -z $words ]]; then
        if ((COMP_CWORD == 1)); then
            words='{}{}'
        else
            case ${{COMP_WORDS[1]}} in
{}            esac
        fi
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -F _verge verge
)",
                       commands.substr(1), options_of(program), cases);
}

}  // namespace

void add_completion(CLI::App& program, int&) {
    CLI::App* const command =
        program.add_subcommand("completion", "Print a script that completes verge's command line");
    CLI::Option* const shell = command->add_option("shell", "bash")->required();
    shell->check(CLI::IsMember({"bash"}));
    const CLI::Option* const as_json = command->add_flag("--json")->description("Print it as JSON");
    command->callback([&program, as_json] {
        const std::string script = bash_script(program);
        if (as_json->count() > 0) {
            fmt::print("{}\n", json_object().add("shell", "bash").add("script", script).text());
        } else {
            fmt::print("{}", script);
        }
    });
}

}  // namespace verge::tool
