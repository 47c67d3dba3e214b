package emit

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/dave/jennifer/jen"
)

// maxWidth is the maximum length of an unbroken line. Tabs count as tabWidth columns.
const (
	maxWidth = 100
	tabWidth = 4
)

// lay builds the layouts of some code in order and returns the first one whose lines fit at the
// given indentation. If none fits, it returns the narrowest layout.
func lay(indent, layouts int, build func(layout int) *jen.Statement) *jen.Statement {
	best := build(0)
	narrowest := width(best)
	for layout := 1; layout < layouts && narrowest+indent > maxWidth; layout++ {
		s := build(layout)
		if w := width(s); w < narrowest {
			best, narrowest = s, w
		}
	}
	return best
}

// width returns the length of the longest line of s, or 0 if s cannot be rendered separately.
func width(s *jen.Statement) int {
	var b bytes.Buffer
	if err := s.Render(&b); err != nil {
		return 0
	}
	longest := 0
	for line := range strings.SplitSeq(b.String(), "\n") {
		longest = max(longest, utf8.RuneCountInString(line)+(tabWidth-1)*strings.Count(line, "\t"))
	}
	return longest
}

// group writes codes between open and closing. If wide is true, each of them is on its own line.
func group(s *jen.Statement, open, closing string, wide bool, codes []jen.Code) *jen.Statement {
	if len(codes) == 0 {
		wide = false
	}
	return s.Custom(jen.Options{Open: open, Close: closing, Separator: ",", Multi: wide}, codes...)
}

func params(s *jen.Statement, wide bool, codes []jen.Code) *jen.Statement {
	return group(s, "(", ")", wide, codes)
}
