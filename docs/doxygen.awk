# What Doxygen reads instead of a public header; lines keep their numbers. The headers' conventions in Doxygen's words:
#   1. The lines that open a header describe the file; what is indented in them is code.
#   2. A /// speaks of all functions and aliases below it, up to the next comment or empty line; in a class only of those
#      of the same name.
#   3. What is the same everywhere gets the same words: members() and forward() of modules, special members, inherited
#      constructors, structs of options, layers by their number of dimensions. A header that says more of one of them has
#      a /// of its own there.
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

!continued && /^ *\/\/\/ / {
  text = $0
  sub(/^ *\/\/\/ /, "", text)
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
  if (line ~ /^ +auto members\(\)/) return "What is trained, moved and saved, by name: see Module."
  if (line ~ /[ &*]forward\(/) return "What the module computes: see its description."
  if (line ~ /= delete;/) return "There is none."
  if (line ~ /\) *(const)? *(noexcept)? *= default;/) return "Copies, moves, compares or makes all members."
  if (line ~ /^  (virtual )?~[A-Z][A-Za-z]*\(\)/) return "Releases what it holds."
  if (line ~ /^  using ([A-Za-z:]+)(<.*>)?::[A-Za-z]+;/) return "As the base's."
  if (match(line, /^struct [A-Za-z]+Options /)) return "Options of " substr(line, 8, RLENGTH - 15) "."
  if (match(line, /^using [A-Za-z]+[123]d = /)) return "In " substr(line, RLENGTH - 4, 1) " spatial dimensions."
  if (block != "" && line ~ /\(|^ *using /) if (line ~ /^[^ ]/ || name_in(line) == name) return block
  return ""
}
# Of the function that a line declares.
function name_in(line) {
  sub(/\(.*/, "", line)
  sub(/.*[ &*]/, "", line)
  return line
}

{
  if (!continued) prefix = 1  # so far there is at most what stands before a declaration: template, requires
  line = $0
  if (prefix && !said && line !~ /\/\/\/</ && line !~ /^ *template <[^()]*>$/) {
    note = note_for(line)
    if (note != "") {
      gsub(/&/, "\\\\&", note)
      sub(/[^ ]/, "/** " note " */ &", line)
    }
    said = note != ""
  }
  if (prefix && said && $0 ~ /\(/) name = name_in($0)
  if ($0 !~ /^ *template <[^()]*>$/) prefix = 0
  print line

  code = $0
  gsub(/"([^"\\]|\\.)*"|'([^'\\]|\\.)'/, "", code)
  sub(/\/\/.*/, "", code)
  while (gsub(/<[^<>]*>/, "", code));
  if (!continued && code ~ /(^|[ )])(class|struct|enum|union|namespace) / || continued && !opened && code ~ /^ *(requires.*)?(class|struct) /) is_class = 1
  opened += gsub(/[({[]/, "&", code) - gsub(/[])}]/, "&", code)
  if (is_class && code ~ /{ *$/) begin_nothing()
  else if (opened == 0 && code ~ /[;}] *$/) said = continued = is_class = 0
  else continued = 1
}
