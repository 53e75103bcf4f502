# What Doxygen reads instead of a public header; lines keep their numbers. The headers' conventions in Doxygen's words:
#   1. The lines that open a header describe the file; what is indented in them is code.
#   2. A /// speaks of all functions and aliases below it, up to the next comment or empty line; in a class only of those
#      of the same name.
#   3. What is the same everywhere gets the same words: members() and forward() of modules, special members, inherited
#      constructors, structs of options, layers by their number of dimensions, and the names in the table below. A header
#      that says more of one of them has a /// of its own there.
BEGIN {
  split("lr=The learning rate.|eps=A small number that keeps a denominator from 0.|weight_decay=The factor of weight decay.|" \
        "momentum=The factor of momentum.|maximize=Climbs instead of descending.|kName=Its name in errors.|" \
        "check()=Throws InvalidArgument for options out of range.|reduction=The mean or the sum of the losses of all elements, or none: the losses.|" \
        "tensor=Device and dtype of the parameters.|options=The options.|" \
        "size()=How many there are.|size_t size()=How many there are.|begin()=The first one, for loops.|end()=Past the last one.|" \
        "empty()=Whether there is none.|name()=Its name.|name=Its name.|" \
        "kernel_size=The size of the window, in each spatial dimension.|stride=The distance from one window to the next.|" \
        "dilation=The distance from one element of a window to the next.|groups=Channels are divided into so many groups that do not mix.|" \
        "padding=Elements that are added on both sides.|padding_mode=The values that are added on both sides.|output_size=The sizes of the result.|" \
        "keep_dims=Reduced dimensions stay, with size 1.|ceil_mode=A window at the end may reach over it.|" \
        "num_layers=The number of layers, one on the other.|nonlinearity=The function that is applied to h.|batch_first=Tensors are [batch, steps, ...].|" \
        "dropout=The probability of dropout, in training.|bidirectional=Runs in both directions; their outputs are side by side.|" \
        "dim=The dimension it works along.|p=The probability, or the order of the norm.|alpha=The factor alpha of the formula.|" \
        "beta=The factor beta of the formula.|lambda=Half the width of the interval around 0.|" \
        "betas=How slowly the means of gradients and of their squares change.|gamma=The factor of a decay.|" \
        "eta_min=The least rate.|total_iters=Steps until the rate stays.|device=The device.|device()=The device.|" \
        "dtype()=The dtype of the elements.|margin=The margin of the loss.|weight=The weight.|bias=The bias.|" \
        "step()=Goes on to the next step.|seed=The seed of the random numbers.|get()=The sample at that index, from 0 to size() - 1.|" \
        "sample()=Draws values, without a gradient.|log_prob()=The logarithm of the density, or of the probability.|" \
        "entropy()=The entropy.|mean()=The mean.|stddev()=The standard deviation.|probs()=Probabilities.|probs=Probabilities.|" \
        "logits()=Logarithms of probabilities.|logits=Logarithms of probabilities.|epoch()=The number of the epoch, from 0.|" \
        "first_batch()=The number of the batch where it begins.|batches()=The number of batches of a whole epoch.|batch_size()=The number of rows of a batch.|" \
        "share()=Which rows of each batch are made.|share=Which rows of each batch are made.|dataset()=As it was given.|" \
        "indices()=The indices, in order.|state_dict()=Its state, by name.|load_state_dict()=Takes over what state_dict() gave.|" \
        "load_state()=Goes on from there.|history()=The history so far.|module()=The module.|world()=The processes that take part.|" \
        "next()=The next sample; nothing at the end.|reset()=Begins anew.|operator*()=The one at hand.|" \
        "operator->()=The one at hand.|operator++()=Goes to the next one.|iterator_concept=For std::ranges.|" \
        "Iterator=For loops.|Sample=The type of what the dataset gives.|title=Above the plot or the page; none if empty.|" \
        "start_us=Microseconds since the trace began.|end_us=Microseconds since the trace began.|optimizer()=The optimizer.|" \
        "optimizer=The optimizer.|schedule=A schedule of the optimizer.|mode=Which of the forms above.|flush()=Writes what is kept.|" \
        "print()=Writes it in one line.|pretty_print()=Writes it in one line.|value_type=For std::ranges.|difference_type=For std::ranges.|lr()=The rate of that step.|collate()=One value of the samples of a batch.|Batch=The type that samples are collated to.|operator<<()=Prints it.|operator==()=Whether all members are equal.|operator()()=Calls it.|" \
        "Call=The options of a call, which a module takes in braces.|numel()=The number of elements.|world=The processes that take part; alone unless told otherwise.", table, "|")
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
# What is said to the standard library, at the end of a header.
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
  if (line ~ /^ +auto members\(\)/) return "Its parts, by name: see lockstep::members()."
  if (line ~ /[ &*]forward\(/) return "What the module computes: see its description."
  if (line ~ /= delete;/) return "There is none."
  if (line ~ /\) *(const)? *(noexcept)? *= default;/) return "Copies, moves, compares or makes all members."
  if (line ~ /^  (virtual )?~[A-Z][A-Za-z]*\(\)/) return "Releases what it holds."
  if (line ~ /^  using ([A-Za-z:]+)(<.*>)?::[A-Za-z]+;/) return "As the base's."
  if (match(line, /^struct [A-Za-z]+Options /)) return "Options of " substr(line, 8, RLENGTH - 15) "."
  if (match(line, /^using [A-Za-z]+[123]d = /)) return "In " substr(line, RLENGTH - 4, 1) " spatial dimensions."
  if (line ~ /^ *bool bias /) return "Whether there is a bias."
  if (block != "" && line ~ /\(|^ *using |^inline constexpr /) if (line ~ /^[^ ]/ || name_in(line) == name) return block
  if (name_in(line) == class && line ~ "\\((const )?" class "(<[A-Za-z]*>)?&&?[ )]") return line ~ /&&/ ? "Takes over what the other holds." : "A copy, as the class says."
  if (line ~ /^ *explicit [A-Z]|^ *[A-Z][A-Za-z0-9]*\(/ && name_in(line) == class) return line ~ /\(\)/ ? "Makes one." : "Made of these."
  if (line ~ /(class|struct) [A-Za-z]+</ || line ~ /struct [A-Za-z]+<[^>]*> {/) return "A specialization: see the template."
  if (match(line, /= Basic(Schedule|Adam)<[A-Za-z]+>/)) return "With these options: " substr(line, RSTART + 2, RLENGTH - 2) "."
  if (line ~ /^[^ ].*operator[^(]+\(/ || line ~ /^  Tensor& operator.=\(/) return "Elementwise, as the function of that operation."
    if (line ~ /Module</ && line ~ /^ *(struct|class) /) return "As a module: what it computes says the function of its name."
  if (line ~ /^  +[A-Za-z]/ && (key = line ~ /\(/ ? name_in(line) "()" : variable_in(line)) in words) return words[key]
  if (line ~ /const [TO]& option\)/) return "With one option: a dtype or a device."
  if (class ~ /^Tensor(Methods)?$/ && line ~ /^  [A-Za-z].*\(/) return "As the function of its name, with this tensor first."
  return ""
}
# Of the variable, or the alias, that a line declares.
function variable_in(line) {
  sub(/;.*/, "", line)
  sub(/ *[={].*/, "", line)
  sub(/.*[ &*]/, "", line)
  return line
}
function each_variable(line,    all, i, n, type, said_of_all, result) {
  said_of_all = block
  if (match(line, / *\/\/\/< /)) said_of_all = substr(line, RSTART + RLENGTH)
  sub(/;.*/, "", line)
  n = split(line, all, ", ")
  match(all[1], /^ +[A-Za-z][A-Za-z0-9_:<>]*( [A-Za-z*]+>)? /)
  type = substr(all[1], 1, RLENGTH)
  if (said_of_all == "" && variable_in(all[1]) in words) said_of_all = words[variable_in(all[1])]
  if (said_of_all != "") said_of_all = "/** " said_of_all " */"
  result = all[1] ";"
  if (!said) result = said_of_all result
  for (i = 2; i <= n; ++i) result = result " " said_of_all type all[i] ";"
  said = said_of_all != ""
  return result
}
# Of the function that a line declares.
function name_in(line) {
  sub(/\(.*/, "", line)
  sub(/.*[ &*]/, "", line)
  return line
}

{
  # Several variables in one line become several lines' worth: each with what is said of all.
  if (!continued && $0 ~ /^ +[A-Za-z][A-Za-z0-9_:<>* ]* [a-z_A-Z0-9]+( = [^,;()]+)?(, [a-z_A-Z0-9]+( = [^,;()]+)?)+;/) $0 = each_variable($0)
  if (!continued) prefix = 1  # so far there is at most what stands before a declaration: template, requires
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
