// Package directive reads the comments with which people talk to the
// generator: //flow:step, //flow:workflow and their kin.
//
// It knows text only, neither types nor files: [Parse] turns one comment into
// a [Directive] or into problems, and [NearMiss] recognises the comments that
// were meant as a directive but are none for the Go tools, such as
// "// flow:step". The grammar:
//
//	directive = "//flow:" kind { space option }
//	value     = text without spaces, or a Go string literal
//	option    = name | name "=" value
//
// Quotes inside a value protect spaces and stay part of it. See the table in
// option.go for what each kind takes.
package directive
