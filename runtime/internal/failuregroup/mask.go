package failuregroup

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/store"
)

// mask replaces the parts of a message that may differ between equivalent messages.
const mask = "§"

// Mask replaces variable data in a message by §: quoted text, and each word that contains a digit,
// an @ or a path. Adjacent replacements are merged, so the length of a list makes no difference.
// The result is at most as long as the text of a failure group.
func Mask(message string) string {
	var b strings.Builder
	masked := false // whether the last word was masked
	for _, w := range words(quotesMasked(message)) {
		core, tail := punctuation(w)
		if core != mask && !varies(core) {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(w)
			masked = false
			continue
		}
		if !masked {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(mask) // surrounding punctuation is dropped, so that a list in brackets equals a single value
		}
		if masked = !strings.Contains(tail, ":"); !masked {
			b.WriteString(":") // a colon separates parts of a message
		}
	}
	return cut(b.String(), store.MaxFailureGroupText/2)
}

// words splits a message at spaces and at characters that IDs do not contain. A comma stays with
// the preceding word.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '|' || r == '=' || unicode.IsControl(r) })
}

// punctuation returns a word without surrounding punctuation, and the punctuation after the word.
func punctuation(w string) (core, tail string) {
	const around = ".,;:!?()[]{}<>*"
	w = strings.TrimLeft(w, around)
	core = strings.TrimRight(w, around)
	return core, w[len(core):]
}

// names are words with digits that do not vary between runs.
var names = setOf(`x509 sha1 sha256 sha512 md5 utf8 utf-8 utf16 base64 int8 int16 int32 int64 uint8 uint16 uint32 uint64
	float32 float64 http2 h2 s3 ec2 k8s oauth2 ed25519 p256 tls1 ipv4 ipv6 e2e i18n sqlite3 psr4 mp3 mp4`)

// varies reports whether a word may vary between runs with the same failure.
func varies(w string) bool {
	if names[strings.ToLower(w)] {
		return false
	}
	return strings.ContainsFunc(w, unicode.IsDigit) || strings.Contains(w, mask) || strings.Contains(w, "@") ||
		strings.Contains(w, "://") || strings.HasPrefix(w, "/") && len(w) > 1 ||
		len(w) >= 8 && strings.Trim(strings.ToLower(w), "abcdef") == "" // a hexadecimal number that happens to contain no digits
}

// quotesMasked replaces quoted text. An apostrophe after a letter is not a quote.
func quotesMasked(s string) string {
	var b strings.Builder
	before := ' '
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if end := quoted(s, r, before); end > 0 {
			b.WriteString(mask)
			s, before = s[end:], ' '
			continue
		}
		b.WriteString(s[:size])
		s, before = s[size:], r
	}
	return b.String()
}

// quoted returns the length of the quoted text with which s begins. It returns 0 if s does not
// begin with quoted text.
func quoted(s string, first, before rune) int {
	closing, isQuote := map[rune]string{'"': `"`, '\'': `'`, '`': "`", '“': "”", '‘': "’", '«': "»"}[first]
	if !isQuote || first == '\'' && (unicode.IsLetter(before) || unicode.IsDigit(before)) {
		return 0
	}
	start := utf8.RuneLen(first)
	for i := start; i < len(s); i++ {
		switch {
		case s[i] == '\\' && first == '"':
			i++
		case strings.HasPrefix(s[i:], closing):
			end := i + len(closing)
			next, _ := utf8.DecodeRuneInString(s[end:])
			if first == '\'' && end < len(s) && unicode.IsLetter(next) {
				continue // an apostrophe inside the quoted text
			}
			return end
		}
	}
	return 0
}

// cut shortens a text to limit bytes without splitting a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.TrimRight(strings.ToValidUTF8(s[:limit], ""), " ")
}
