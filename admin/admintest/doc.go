// Package admintest is the suite of what every Service does, whichever way it takes to the store: [Run] runs it. A
// service is judged by what it does to runs that a worker works on, and by whether it answers what admin.New answers.
package admintest
