#include "multihead/nn/embedding.hpp"

#include "nn/rows.hpp"

namespace multihead::nn {
namespace {

template <class T>
void check(const Embedding<T>& table, const TensorView<const index_t, 1>& ids, const TensorView<const T, 2>& rows,
           std::string_view rows_name) {
  require(rows.shape(0) == ids.shape(0) && rows.shape(1) == table.features() && has_contiguous_rows(rows), "Embedding",
          "there must be a contiguous row of features for each id",
          {{"ids", text_of(ids)}, {rows_name, text_of(rows)}, {"weight", text_of(table.weight.view())}});
  for (index_t n = 0; n < ids.shape(0); ++n) {
    if (ids(n) >= 0 && ids(n) < table.num_rows()) continue;
    require(false, "Embedding", "an id must be in [0, num_rows)",
            {{"id", ids(n)}, {"position", n}, {"num_rows", table.num_rows()}});
  }
}

}  // namespace

template <class T>
Embedding<T>::Embedding(index_t num_rows, index_t features) : weight({num_rows, features}) {}

template <class T>
void Embedding<T>::forward(TensorView<const index_t, 1> ids, TensorView<T, 2> y, bool accumulate) const {
  check<T>(*this, ids, y, "y");
  for (index_t n = 0; n < ids.shape(0); ++n) {
    const T* row = weight.data() + ids(n) * features();
    for (index_t j = 0; j < features(); ++j) y(n, j) = accumulate ? y(n, j) + row[j] : row[j];
  }
}

template <class T>
void Embedding<T>::backward(TensorView<const index_t, 1> ids, TensorView<const T, 2> dy, Embedding& gradients) const {
  check<T>(*this, ids, dy, "dy");
  require(gradients.weight.shape() == weight.shape(), "Embedding", "gradients must have the shape of the parameters",
          {{"weight", text_of(weight.view())}, {"gradient", text_of(gradients.weight.view())}});
  for (index_t n = 0; n < ids.shape(0); ++n) {
    T* row = gradients.weight.data() + ids(n) * features();
    for (index_t j = 0; j < features(); ++j) row[j] += dy(n, j);
  }
}

template struct Embedding<float>;
template struct Embedding<double>;

}  // namespace multihead::nn
