// The atlas page of a JSON file:  make_atlas TITLE HEADS.json PAGE.html
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "multihead/atlas_report.hpp"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    std::ifstream file(argv[2], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::ofstream(argv[3], std::ios::binary) << multihead::atlas_page(argv[1], text);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
