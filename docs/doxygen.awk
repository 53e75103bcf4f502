# Filters a public header for Doxygen; lines keep their numbers. Translates the headers' conventions:
#   1. The lines that open a header describe the file; indented lines in them are code.
#   2. A /// describes all functions and aliases below it, up to the next comment or empty line; in a class only those of
#      the same name.
#   3. Members that mean the same everywhere get a standard description, unless they have a /// of their own: members() and
#      forward() of modules, special members, inherited constructors, structs of options, layers by their number of
#      dimensions, and the names in the table below.
BEGIN {
  split("lr=The learning rate.|eps=A small number that keeps a denominator from 0.|weight_decay=The factor of weight decay.|" \
        "momentum=The factor of momentum.|maximize=Maximizes instead of minimizing.|kName=The name in errors.|" \
        "check()=Throws InvalidArgument for options out of range.|reduction=How the losses of all elements are reduced: mean, sum, or none.|" \
        "tensor=The device and dtype of the parameters.|options=The options.|" \
        "size()=The size.|size_t size()=The size.|begin()=An iterator to the first element.|end()=An iterator past the last element.|" \
        "empty()=True if there are no elements.|name()=The name.|name=The name.|" \
        "kernel_size=The size of the window in each spatial dimension.|stride=The distance between windows.|" \
        "dilation=The distance between the elements of a window.|groups=The number of groups of channels that do not mix.|" \
        "padding=The padding on both sides.|padding_mode=The kind of padding.|output_size=The spatial sizes of the result.|" \
        "keep_dims=True keeps reduced dimensions, with size 1.|ceil_mode=True if the last window may reach past the end.|" \
        "num_layers=The number of stacked layers.|nonlinearity=The activation of the hidden state.|batch_first=True for tensors of [batch, steps, ...].|" \
        "dropout=The probability of dropout, in training.|bidirectional=True concatenates the outputs of both directions.|" \
        "dim=The dimension of the operation.|p=The probability, or the order of the norm.|alpha=The factor alpha of the formula.|" \
        "beta=The factor beta of the formula.|lambda=Half the width of the interval around 0.|" \
        "betas=The decay rates of the means of gradients and of their squares.|gamma=The factor of a decay.|" \
        "eta_min=The least learning rate.|total_iters=The number of steps until the learning rate is constant.|device=The device.|device()=The device.|" \
        "dtype()=The dtype of the elements.|margin=The margin of the loss.|weight=The weight.|bias=The bias.|" \
        "step()=Advances by one step.|seed=The seed of the random numbers.|get()=The sample at that index, from 0 to size() - 1.|" \
        "sample()=Draws values, without a gradient.|log_prob()=The logarithm of the density, or of the probability.|" \
        "entropy()=The entropy.|mean()=The mean.|stddev()=The standard deviation.|probs()=Probabilities.|probs=Probabilities.|" \
        "logits()=Logarithms of probabilities.|logits=Logarithms of probabilities.|epoch()=The index of the epoch, from 0.|" \
        "first_batch()=The index of the first batch.|batches()=The number of batches of a whole epoch.|batch_size()=The rows of a batch.|" \
        "share()=The rows of each batch that this process makes.|share=The rows of each batch that this process makes.|dataset()=The dataset.|" \
        "indices()=The indices, in order.|state_dict()=The state, by name.|load_state_dict()=Restores a state that state_dict() returned.|" \
        "load_state()=Resumes from that state.|history()=The history so far.|module()=The module.|world()=The processes that take part.|" \
        "next()=The next sample; std::nullopt at the end.|reset()=Starts over.|operator*()=The current element.|" \
        "operator->()=The current element.|operator++()=Advances to the next element.|iterator_concept=For std::ranges.|" \
        "Iterator=An iterator, for loops.|Sample=A sample of the dataset.|title=The title of the plot or the page; none if empty.|" \
        "start_us=The start, in microseconds since the trace began.|end_us=The end, in microseconds since the trace began.|optimizer()=The optimizer.|" \
        "optimizer=The optimizer.|schedule=A schedule of the optimizer.|mode=One of the modes above.|flush()=Writes buffered output.|" \
        "print()=Prints the module in one line.|pretty_print()=Prints the module in one line.|value_type=For std::ranges.|difference_type=For std::ranges.|lr()=The learning rate of that step.|collate()=Joins samples to a batch.|Batch=The type of a batch.|operator<<()=Prints the value.|operator==()=True if all members are equal.|operator()()=Calls the function.|" \
        "Call=The options of a call of forward().|numel()=The number of elements.|world=The processes that take part; by default only this one.", table, "|")
  for (i in table) {
    at = index(table[i], "=" substr(table[i], match(table[i], /=[A-Z]/) + 1))
    words[substr(table[i], 1, at - 1)] = substr(table[i], at + 1)
  }
}
function begin_nothing() { block = ""; said = continued = opened = is_class = 0 }

FNR == 1 { opening = 1; begin_nothing() }

opening && /^\/\// {
  sub(/^\/\/   /, "///        ") || sub(/^\/\//, "///")
  print
  next
}
opening && /^#pragma once/ {
  opening = 0
  print "/// @file"
  next
}

match($0, /\/\/\//) {  # <name> in a text is no markup
  text = substr($0, RSTART)
  gsub(/<[a-z_]+>/, "\\\\&", text)
  $0 = substr($0, 1, RSTART - 1) text
}
# Specializations of variables of the standard library, at the end of a header.
/^inline constexpr bool std::/ { next }

!continued && /^ *\/\/\/( |$)/ {
  text = $0
  sub(/^ *\/\/\/ ?/, "", text)
  block = said ? block " " text : text
  said = 1
  print
  next
}
opened == 0 && /^ *}/ || !continued && (/^ *$/ || /^ *\/\// || /^#/ || /^ *(public|protected|private):$/) {
  begin_nothing()
  print
  next
}

function note_for(line) {
  if (line ~ /^ +auto members\(\)/) return "The parts, by name: see lockstep::members()."
  if (line ~ /[ &*]forward\(/) return "Computes the output of the module: see its description."
  if (line ~ /= delete;/) return "Deleted."
  if (line ~ /\) *(const)? *(noexcept)? *= default;/) return "Copies, moves, compares or makes all members."
  if (line ~ /^  (virtual )?~[A-Z][A-Za-z]*\(\)/) return "Releases all resources."
  if (line ~ /^  using ([A-Za-z:]+)(<.*>)?::[A-Za-z]+;/) return "As in the base."
  if (match(line, /^struct [A-Za-z]+Options /)) return "Options of " substr(line, 8, RLENGTH - 15) "."
  if (match(line, /^using [A-Za-z]+[123]d = /)) return "In " substr(line, RLENGTH - 4, 1) " spatial dimensions."
  if (line ~ /^ *bool bias /) return "True for a layer with a bias."
  if (block != "" && line ~ /\(|^ *using |^inline constexpr /) if (line ~ /^[^ ]/ || name_in(line) == name) return block
  if (name_in(line) == class && line ~ "\\((const )?" class "(<[A-Za-z]*>)?&&?[ )]") return line ~ /&&/ ? "Moves from another object." : "Copies, as the description of the class says."
  if (line ~ /^ *explicit [A-Z]|^ *[A-Z][A-Za-z0-9]*\(/ && name_in(line) == class) return line ~ /\(\)/ ? "Constructs an object." : "Constructs an object from the arguments."
  if (line ~ /(class|struct) [A-Za-z]+</ || line ~ /struct [A-Za-z]+<[^>]*> {/) return "A specialization: see the template."
  if (match(line, /= Basic(Schedule|Adam)<[A-Za-z]+>/)) return "With these options: " substr(line, RSTART + 2, RLENGTH - 2) "."
  if (line ~ /^[^ ].*operator[^(]+\(/ || line ~ /^  Tensor& operator.=\(/) return "Elementwise; as the function of that operation."
    if (line ~ /Module</ && line ~ /^ *(struct|class) /) return "The function of the same name, as a module."
  if (line ~ /^  +[A-Za-z]/ && (key = line ~ /\(/ ? name_in(line) "()" : variable_in(line)) in words) return words[key]
  if (line ~ /const [TO]& option\)/) return "With one option: a dtype or a device."
  if (class ~ /^Tensor(Methods)?$/ && line ~ /^  [A-Za-z].*\(/) return "As the function of the same name, with this tensor as the first argument."
  return ""
}
# The name of the variable, or the alias, that a line declares.
function variable_in(line) {
  sub(/;.*/, "", line)
  sub(/ *[={].*/, "", line)
  sub(/.*[ &*]/, "", line)
  return line
}
function each_variable(line,    all, i, n, type, said_of_all, has_own, result) {
  said_of_all = block
  if (match(line, / *\/\/\/< /)) said_of_all = substr(line, RSTART + RLENGTH)
  sub(/;.*/, "", line)
  n = split(line, all, ", ")
  match(all[1], /^ +[A-Za-z][A-Za-z0-9_:<>]*( [A-Za-z*]+>)? /)
  type = substr(all[1], 1, RLENGTH)
  has_own = said_of_all != ""
  if (!has_own && variable_in(all[1]) in words) said_of_all = words[variable_in(all[1])]
  if (said_of_all != "") said_of_all = "/** " said_of_all " */"
  result = all[1] ";"
  if (!said) result = said_of_all result
  for (i = 2; i <= n; ++i)
    result = result " " (!has_own && variable_in(all[i]) in words ? "/** " words[variable_in(all[i])] " */" : said_of_all) type all[i] ";"
  said = said_of_all != ""
  return result
}
# The name of the function that a line declares.
function name_in(line) {
  sub(/\(.*/, "", line)
  sub(/.*[ &*]/, "", line)
  return line
}

{
  # Several variables in one line are declared one by one, each with the description of all.
  if (!continued && $0 ~ /^ +[A-Za-z][A-Za-z0-9_:<>* ]* [a-z_A-Z0-9]+( = [^,;()]+)?(, [a-z_A-Z0-9]+( = [^,;()]+)?)+;/) $0 = each_variable($0)
  if (!continued) prefix = 1  # so far there are only lines before a declaration: template, requires
  line = $0
  if (prefix && !said && line !~ /\/\/\/</ && line !~ /^ *(template|requires) [^(){};]*$/) {
    note = note_for(line)
    if (note != "") {
      gsub(/&/, "\\\\&", note)
      sub(/[^ ]/, "/** " note " */ &", line)
    }
    said = note != ""
  }
  if (prefix && said && $0 ~ /\(/) name = name_in($0)
  if ($0 !~ /^ *(template|requires) [^(){};]*$/) prefix = 0
  print line

  code = $0
  gsub(/"([^"\\]|\\.)*"|'([^'\\]|\\.)'/, "", code)
  sub(/\/\/.*/, "", code)
  while (gsub(/<[^<>]*>/, "", code));
  if (!continued && code ~ /(^|[ )])(class|struct|enum|union|namespace) / || continued && !opened && code ~ /^ *(requires.*)?(class|struct) /) is_class = 1
  opened += gsub(/[({[]/, "&", code) - gsub(/[])}]/, "&", code)
  if (is_class && match(code, /(class|struct) ( *LOCKSTEP_API)? *[A-Za-z0-9]+/)) {
    class = substr(code, RSTART, RLENGTH)
    sub(/.* /, "", class)
  }
  if (is_class && code ~ /{ *$/) begin_nothing()
  else if (opened == 0 && code ~ /[;}] *$/) said = continued = is_class = 0
  else continued = 1
}
