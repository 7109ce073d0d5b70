// The page's source files, embedded at build time: src/report/page/, src/report/atlas/.
#pragma once

#include <string_view>

namespace multihead::assets {

extern const std::string_view kTemplate;       ///< page.html
extern const std::string_view kStyle;          ///< page.css
extern const std::string_view kScript;         ///< the *.js files, joined in the order that CMakeLists.txt gives
extern const std::string_view kLiveTemplate;   ///< live.html
extern const std::string_view kLiveScript;     ///< live.js
extern const std::string_view kAtlasTemplate;  ///< atlas/atlas.html
extern const std::string_view kAtlasStyle;     ///< atlas/atlas.css, after page.css
extern const std::string_view kAtlasScript;    ///< the *.js files of the atlas, with those it shares with the page

}  // namespace multihead::assets
