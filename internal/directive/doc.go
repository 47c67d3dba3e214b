// Package directive parses the comments that control the generator, such as //flow:step and
// //flow:workflow.
//
// It processes only the text of comments, without types and files. [Parse] turns a comment into a
// [Directive] or a list of problems. [NearMiss] recognizes comments that were meant as a directive
// but have a form that Go tools treat as plain text, such as "// flow:step". The grammar:
//
//	directive = "//flow:" kind { space option }
//	value     = text without spaces, or a Go string literal
//	option    = name | name "=" value
//
// Quotes inside a value protect spaces and remain part of the value. The table in option.go lists
// the options of each kind.
package directive
