# Filters a page for Doxygen: headings get the anchors that GitHub gives them, prefixed with the page's name, and links point
# to these. A link to a file that is not a page becomes its text.
FNR == 1 {
  page = FILENAME
  sub(/.*\//, "", page)
  sub(/\.md$/, "", page)
  page = "page-" page
}
/^```/ {
  fenced = !fenced
  sub(/^```text sim.*/, "```text")
}
fenced { print; next }
/^# [0-9]+\. / { sub(/\. /, ": "); sub(/^# /, "# Chapter ") }  # Doxygen would count them itself
/^##+ / {
  id = tolower($0)
  sub(/^##+ /, "", id)
  gsub(/[^a-z0-9 _-]/, "", id)
  gsub(/ /, "-", id)
  print $0 " {#" page "-" id "}"
  next
}
{
  line = ""
  rest = $0
  while (match(rest, /\[[^][]*\]\([^()]*\)/)) {
    link = substr(rest, RSTART, RLENGTH)
    line = line substr(rest, 1, RSTART - 1)
    rest = substr(rest, RSTART + RLENGTH)
    at = index(link, "](")
    target = substr(link, at + 2, length(link) - at - 2)
    if (target ~ /^#/) link = substr(link, 1, at) "(#" page "-" substr(target, 2) ")"
    else if (target ~ /\.md#/) {
      hash = index(target, "#")
      file = substr(target, 1, hash - 4)
      sub(/.*\//, "", file)
      link = substr(link, 1, at) "(#page-" file "-" substr(target, hash + 1) ")"
    } else if (target !~ /^https?:/ && target !~ /\.md$/) link = substr(link, 2, at - 2)
    line = line link
  }
  print line rest
}
