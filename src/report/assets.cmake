# The page's own sources become part of the library.
set(page ${CMAKE_CURRENT_LIST_DIR}/page)
set(script)
foreach(name dom characters numbers data view colour surface state grid matrix lines details text target describe
        export thumbnails draw reveal zoom address pointer keys title print main)
  list(APPEND script ${page}/${name}.js)
endforeach()
list(JOIN script "," script)
set(atlas ${CMAKE_CURRENT_LIST_DIR}/atlas)
set(atlas_script ${page}/dom.js ${page}/characters.js ${page}/colour.js)
foreach(name roles model state address numbers drawing files grid similarity plane table details compare prune main)
  list(APPEND atlas_script ${atlas}/${name}.js)
endforeach()
list(JOIN atlas_script "," atlas_script)
multihead_embed(multihead_models HEADER report/assets.hpp NAMESPACE multihead::assets
  ENTRIES kTemplate=${page}/page.html kStyle=${page}/page.css kScript=${script}
          kLiveTemplate=${page}/live.html kLiveScript=${page}/live.js
          kAtlasTemplate=${atlas}/atlas.html kAtlasStyle=${atlas}/atlas.css kAtlasScript=${atlas_script})
