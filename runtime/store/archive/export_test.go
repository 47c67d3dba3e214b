package archive

import "bytes"

// Resealed returns a file with the given line in place of the line of its kind, with new sums for
// all lines.
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
