// Package uitest opens the web console in a real browser: it has the tests of the console that need one, and what draws the pictures
// of the README. Anything that a browser complains about, on its console or by the policy of a page, is an error.
package uitest
