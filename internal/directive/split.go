package directive

import (
	"go/token"
	"strconv"
	"strings"
)

// word is one option in source form. It consists of a name, and of a value if it contains "=".
type word struct {
	name     string
	pos      token.Pos
	value    Text
	hasValue bool
}

// split divides the text after the kind into options.
func split(t Text) ([]word, []Problem) {
	var words []word
	var problems []Problem
	for i := 0; i < len(t.Value); {
		if isSpace(t.Value[i]) {
			i++
			continue
		}
		end, p := wordEnd(t, i)
		if p != nil {
			return words, append(problems, *p)
		}
		w, p := parseWord(Text{t.Value[i:end], t.Pos + token.Pos(i)})
		if p != nil {
			return words, append(problems, *p)
		}
		words = append(words, w)
		i = end
	}
	return words, problems
}

// wordEnd returns the index after the word that starts at i. Spaces inside quotes belong to the
// word. Spaces inside parentheses do not, but the parentheses must be balanced.
func wordEnd(t Text, i int) (int, *Problem) {
	start, depth := i, 0
	for ; i < len(t.Value); i++ {
		switch c := t.Value[i]; c {
		case '"', '`', '\'':
			end := quoteEnd(t.Value, i)
			if end < 0 {
				return 0, &Problem{t.Pos + token.Pos(i), "the quote " + string(c) + " is not closed", "close it"}
			}
			i = end
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ' ', '\t':
			if depth <= 0 {
				return i, nil
			}
			return 0, spaceInside(t, start, i)
		}
	}
	return i, nil
}

func spaceInside(t Text, start, space int) *Problem {
	name, _, _ := strings.Cut(t.Value[start:space], "=")
	return &Problem{t.Pos + token.Pos(space), "the value of " + name + " holds a space or a parenthesis that is not closed",
		"close every parenthesis and write the value without spaces, or quote it: " + name + "=\"…\""}
}

// quoteEnd returns the index of the quote that closes the quote at i, or -1.
func quoteEnd(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch {
		case s[j] == s[i]:
			return j
		case s[j] == '\\' && s[i] != '`':
			j++
		}
	}
	return -1
}

func parseWord(t Text) (word, *Problem) {
	if strings.HasPrefix(t.Value, "//") {
		return word{}, &Problem{t.Pos, "a directive holds no comment", "put the comment on a line of its own"}
	}
	name, value, hasValue := strings.Cut(t.Value, "=")
	w := word{name: name, pos: t.Pos, hasValue: hasValue}
	w.value = Text{value, t.Pos + token.Pos(len(name)+1)}
	if strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "`") {
		if quoteEnd(value, 0) == len(value)-1 {
			s, err := strconv.Unquote(value)
			if err != nil {
				return word{}, &Problem{w.value.Pos, "the value of " + name + " is not a Go string", "mend its escapes"}
			}
			w.value = Text{s, w.value.Pos + 1}
		}
	}
	return w, nil
}

// joined removes options that have spaces around "=", and reports a problem for each of them.
func joined(words []word) ([]word, []Problem) {
	var good []word
	var problems []Problem
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w.name == "" && len(good) > 0 && !good[len(good)-1].hasValue: // The forms are "retries = 5" and "retries =5".
			w = good[len(good)-1]
			good = good[:len(good)-1]
			if words[i].value.Value == "" {
				i++
			}
		case w.hasValue && w.value.Value == "" && w.name != "" && i+1 < len(words) && !words[i+1].hasValue: // The form is "retries= 5".
			i++
		case w.name == "":
			problems = append(problems, Problem{w.pos, "there is no option before =", "write option=value"})
			continue
		default:
			good = append(good, w)
			continue
		}
		problems = append(problems, Problem{w.pos, "there is a space around the = of " + w.name, "write " + w.name + "=value without spaces"})
	}
	return good, problems
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
