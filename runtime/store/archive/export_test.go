package archive

import "bytes"

// Resealed returns a file in which body replaces the first line of the same kind. All lines have
// new sums.
func Resealed(file, body []byte) []byte {
	var s sum
	var b bytes.Buffer
	kind, _, _ := bytes.Cut(body, []byte(","))
	replaced := false
	for line := range bytes.Lines(file) {
		was := append(bytes.Clone(line[:bytes.LastIndex(line, []byte(`,"sum":`))]), '}')
		if !replaced && len(kind) > 2 && bytes.HasPrefix(was, kind) {
			was, replaced = bytes.Clone(body), true
		}
		b.Write(s.seal(was))
	}
	return b.Bytes()
}
