// Package spelling finds the name that a misspelled word was meant to be. The generator, the checks
// of workflow code and the configuration by environment variables use it.
package spelling

import "strings"

// Nearest returns the candidate that is most similar to word, or "" if none is similar enough. At
// most two letters, and at most a third of the letters, may differ.
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", 3
	for _, c := range candidates {
		limit := min(2, max(1, len(c)/3))
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d <= limit && d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance returns the edit distance between a and b. It is the number of insertions, deletions and
// replacements of single letters and of swaps of neighboring letters.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(x); i++ {
		next := make([]int, len(y)+1)
		next[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			next[j] = min(next[j-1]+1, row[j]+1, row[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(y)]
}
