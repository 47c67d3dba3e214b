// Package name derives the identifiers of generated code from the user's identifiers, so that all
// parts of the generator use the same identifiers.
package name

import (
	"go/token"
	"go/types"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Output is the name of the generated file in every package.
const Output = "flow_gen.go"

// Exported returns the exported form of the identifier impl. It returns false if there is none, as
// for "_x" and for identifiers in a script without case.
func Exported(impl string) (string, bool) {
	s := change(impl, unicode.ToUpper)
	return s, token.IsExported(s)
}

// Unexported returns s with its first word in lower case. A first word that is an initialism, such
// as HTTP in HTTPGet and URLs in URLsOf, is lowered completely.
func Unexported(s string) string {
	letters := []rune(s)
	upper := 0
	for upper < len(letters) && unicode.IsUpper(letters[upper]) {
		upper++
	}
	if rest := letters[upper:]; upper > 1 && len(rest) > 0 && unicode.IsLower(rest[0]) {
		plural := rest[0] == 's' && (len(rest) == 1 || !unicode.IsLower(rest[1]))
		if !plural {
			upper-- // The last letter begins the next word.
		}
	}
	return strings.ToLower(string(letters[:upper])) + string(letters[upper:])
}

// Args returns the name of the struct with the arguments of the step that has the given Go name.
func Args(goName string) string { return Unexported(goName) + "Args" }

// Step returns the name of the variable that describes the step with the given Go name.
func Step(goName string) string { return Unexported(goName) + "Step" }

// Func returns the name of the type of the implementation of the step with the given Go name.
func Func(goName string) string { return Unexported(goName) + "Func" }

// Input returns the name of the input struct of the workflow with the given Go name. Only a
// workflow with several inputs has such a struct.
func Input(goName string) string { return goName + "Input" }

// Result returns the name of the result struct of the graph with the given Go name. Only a graph
// with several sinks has such a struct.
func Result(goName string) string { return goName + "Result" }

// Graph returns the name of the function that executes the graph with the given Go name.
func Graph(goName string) string { return Unexported(goName) + "Graph" }

// initialisms lists names that Go style writes in capitals.
var initialisms = map[string]bool{
	"api": true, "html": true, "http": true, "https": true, "id": true, "ip": true, "json": true, "sku": true,
	"sql": true, "ttl": true, "uri": true, "url": true, "utc": true, "uuid": true, "vat": true, "xml": true,
}

// Fields returns exported field names for params. They are distinct.
func Fields(params []string) []string {
	fields := make([]string, len(params))
	taken := make(map[string]bool)
	for i, p := range params {
		field, ok := Exported(p)
		switch {
		case initialisms[p]:
			field = strings.ToUpper(p)
		case !ok:
			field = "X" + p
		}
		fields[i] = Free(field, func(s string) bool { return taken[s] })
		taken[fields[i]] = true
	}
	return fields
}

// Free returns base if it is not taken, otherwise base with the first free number from 2.
func Free(base string, taken func(string) bool) string {
	s := base
	for n := 2; taken(s); n++ {
		s = base + strconv.Itoa(n)
	}
	return s
}

// Reserved reports whether s is a keyword or a predeclared identifier. Generated names must not be
// reserved.
func Reserved(s string) bool {
	return token.IsKeyword(s) || types.Universe.Lookup(s) != nil
}

func change(s string, f func(rune) rune) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(f(r)) + s[size:]
}

// Done is the name of the method that ends a machine.
const Done = "done"

// Next returns the name of the result type of the steps of the machine with the given Go name.
func Next(goName string) string { return Unexported(goName) + "Next" }

// Goto returns the name of the method that continues a machine with the step impl.
func Goto(impl string) string { return "go" + change(impl, unicode.ToUpper) }

// Await returns the name of the method that continues a machine with the step impl when a message
// arrives.
func Await(impl string) string { return "await" + change(impl, unicode.ToUpper) }
