# Writes a C++ file with the sources of the live page as text.
# usage: cmake -D FOLDER=tools/verge/page -D OUTPUT=live_page.cpp -P embed.cmake

set(text "// Made by tools/embed.cmake from tools/verge/page.\n#include \"live_page.hpp\"\n\n")
string(APPEND text "namespace verge::tool {\n\n")
foreach(kind html css js)
    file(READ ${FOLDER}/live.${kind} content)
    string(FIND "${content}" ")verge_page\"" place)
    if(NOT place EQUAL -1)
        message(FATAL_ERROR "live.${kind} holds the mark that ends it")
    endif()
    string(APPEND text "const std::string_view live_${kind} = R\"verge_page(${content})verge_page\";\n\n")
endforeach()
string(APPEND text "}  // namespace verge::tool\n")
file(WRITE ${OUTPUT} "${text}")
