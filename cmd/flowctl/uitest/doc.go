// Package uitest contains the tests of the web console that need a real browser, and draws the
// pictures of the README. Everything that the browser reports on its console or because of the
// policy of a page is an error.
package uitest
