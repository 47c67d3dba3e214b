// Package load reads the packages of a user for the generator.
//
// The difficulty is that these packages do not compile before they were
// generated: workflows call functions of flow_gen.go. So load treats every
// flow_gen.go as absent, derives declarations for what it would hold from the
// annotated signatures alone, and appends them to the users' files while
// go/packages parses them. Positions in the user's text stay as they are, and
// whatever lies beyond [File.End] is ours.
//
// Dependencies come from export data; only those without any (they do not
// compile yet themselves) are read from source, with the same treatment.
package load
