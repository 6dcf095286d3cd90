// bench/support/own_process.cpp -- runs a peer in a separate process.

#include "support/own_process.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>

#include <sys/wait.h>
#include <unistd.h>

namespace bench {
namespace {

[[noreturn]] void throw_errno(const char* call) {
    throw std::system_error(errno, std::generic_category(), call);
}

// As text: "ok", the checksum and the figures by name; or the reason why there are none.
std::string text_of(const std::function<outcome()>& run) {
    std::ostringstream text;
    try {
        const outcome found = run();
        text.precision(17);
        text << "ok " << found.checksum;
        for (const auto& [name, value] : found.figures) {
            text << ' ' << name << ' ' << value;
        }
    } catch (const std::exception& error) {
        return error.what();
    }
    return text.str();
}

outcome outcome_of(const std::string& text) {
    std::istringstream words(text);
    std::string word;
    outcome found;
    if (!(words >> word >> found.checksum) || word != "ok") throw std::runtime_error(text);
    for (double value = 0; words >> word >> value;) {
        found.figures[word] = value;
    }
    return found;
}

void write_all(int fd, const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t written = write(fd, text.data() + done, text.size() - done);
        if (written < 0) return;  // the reader finds too little
        done += static_cast<std::size_t>(written);
    }
}

std::string read_all(int fd) {
    std::string text;
    char part[4096];
    for (;;) {
        const ssize_t got = read(fd, part, sizeof part);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return text;
        text.append(part, static_cast<std::size_t>(got));
    }
}

}  // namespace

outcome in_own_process(const std::function<outcome()>& run) {
    int ends[2];
    if (pipe(ends) != 0) throw_errno("pipe");
    const pid_t child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        throw_errno("fork");
    }
    if (child == 0) {
        close(ends[0]);
        write_all(ends[1], text_of(run));
        _exit(0);  // not exit(): what was registered there belongs to the parent
    }
    close(ends[1]);
    const std::string text = read_all(ends[0]);
    close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) throw_errno("waitpid");
    }
    if (WIFSIGNALED(status)) {
        throw std::runtime_error("ended by signal " + std::to_string(WTERMSIG(status)));
    }
    return outcome_of(text);
}

}  // namespace bench
