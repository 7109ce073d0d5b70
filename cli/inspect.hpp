// What `multihead inspect` hands to its three outputs: the terminal, the page, the JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heads.hpp"
#include "model_run.hpp"
#include "multihead/lens.hpp"
#include "terminal.hpp"

namespace multihead::cli {

struct HeadStatistics {
  index_t layer = 0;
  index_t head = 0;    ///< index within the layer
  index_t number = 0;  ///< original number, which is shown and which flags take
  lens::HeadSummary summary;
  std::vector<double> offsets;               ///< lens::offset_profile, kOffsetReach to both sides
  std::optional<double> distant_confidence;  ///< lens::confidence at kDistant
};

constexpr index_t kOffsetReach = 4;
constexpr index_t kLinks = 3;
constexpr index_t kDistant = 2;  ///< beyond the neighbours

struct Inspection {
  const ModelRun& run;
  ReportTokens tokens;
  std::vector<HeadStatistics> heads;  ///< layer by layer
  LayerHead shown;                    ///< the head that is drawn and opened
  bool shown_was_asked_for = false;
  std::optional<double> shown_confidence = {};  ///< its distant_confidence
  std::optional<HeadsResult> roles = {};        ///< where they were asked for
};

/// The head to draw and open; what is unset is chosen.
struct HeadSelection {
  std::optional<index_t> layer, head;  ///< `head`: its original number
};

/// @throws UsageError  if no head fits the selection
Inspection inspect(const ModelRun& run, const HeadSelection& selection, Executor* threads);

/// The roles on this text alone: without repeated tokens and, as it is one segment, without intervals.
HeadsResult roles_of(const ModelRun& run, Executor* threads);

lens::HeadMap map_of(const ModelRun& run, index_t layer, index_t head);

/// The page.
std::string inspection_page(const Inspection& inspection, Executor* threads);

/// one line per head.
std::string heads_table(const Inspection& inspection, const Style& style, int width);

/// The map of inspection.shown: token by token where it fits `width` columns, else as a picture of the whole.
std::string map_drawing(const Inspection& inspection, const Style& style, int width);

/// The same as data.
std::string inspection_json(const Inspection& inspection);

}  // namespace multihead::cli
