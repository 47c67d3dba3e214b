// Package load reads the user's packages for the generator.
//
// These packages do not compile before code has been generated, because workflows call functions of
// flow_gen.go. Therefore load treats every flow_gen.go as absent, derives the declarations that it
// would contain from the annotated signatures alone, and appends them to the user's files while
// go/packages parses them. Positions in the user's text do not change, and all text after
// [File.End] was appended.
//
// Dependencies are loaded from export data. Only dependencies that do not compile before generation
// are loaded from source in the same way.
package load
