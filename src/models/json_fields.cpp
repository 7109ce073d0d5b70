#include "models/json_fields.hpp"

#include "core/file_error.hpp"
#include "io/json.hpp"

namespace multihead {

JsonFields::JsonFields(const JsonFile& file, std::string_view function) : file_(file), function_(function) {
  require_file(object().is_object(), path(), function_, "the file must hold a JSON object");
}

const nlohmann::json* JsonFields::find(std::string_view key) const {
  const auto found = object().find(std::string(key));
  return found == object().end() || found->is_null() ? nullptr : &*found;
}

std::optional<index_t> JsonFields::integer(std::string_view key, index_t least) const {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  const bool whole =
      value->is_number_integer() && (!value->is_number_unsigned() || value->get<std::uint64_t>() < kLimit);
  require_file(whole && value->get<std::int64_t>() >= least && value->get<std::int64_t>() < kLimit, path(), function_,
               "a field must be a whole number in range",
               {{std::string(key), quote(value->dump())}, {"least", least}, {"below", kLimit}});
  return value->get<index_t>();
}

std::optional<double> JsonFields::number(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  require_file(value->is_number(), path(), function_, "a field must be a number",
               {{std::string(key), quote(value->dump())}});
  return value->get<double>();
}

std::optional<std::string> JsonFields::text(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  require_file(value->is_string(), path(), function_, "a field must be text",
               {{std::string(key), quote(value->dump())}});
  return value->get<std::string>();
}

std::optional<bool> JsonFields::flag(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  require_file(value->is_boolean(), path(), function_, "a field must be true or false",
               {{std::string(key), quote(value->dump())}});
  return value->get<bool>();
}

index_t JsonFields::required_integer(std::string_view key, index_t least) const {
  const std::optional<index_t> value = integer(key, least);
  require_file(value.has_value(), path(), function_, "a field must be there", {{"field", quote(key)}});
  return *value;
}

}  // namespace multihead
