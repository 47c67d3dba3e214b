package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticks is the number of clock ticks in a second, which Linux reports to programs on all platforms.
const ticks = 100

// CPU returns the CPU time, user and system, of a process and its children, including those that
// have ended.
func CPU(pid int) (time.Duration, error) {
	own, err := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	sum := own.used + own.ended
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		if child, err := readStat(path); err == nil && child.parent == pid { // an error: the process has ended
			sum += child.used + child.ended
		}
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// stat contains fields of /proc/PID/stat, times in clock ticks.
type stat struct {
	parent int
	used   int // of the process
	ended  int // of its children that have ended
}

func readStat(path string) (stat, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return stat{}, fmt.Errorf("read the CPU time of a process: %w", err)
	}
	_, after, _ := strings.Cut(string(text), ") ") // the name in parentheses may contain spaces
	f := strings.Fields(after)
	if len(f) < 15 {
		return stat{}, fmt.Errorf("read the CPU time of a process: %s has %d fields", path, len(f))
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(f[i-3]) // fields are numbered from 1 in proc(5), and two are cut off
		return v
	}
	return stat{parent: n(4), used: n(14) + n(15), ended: n(16) + n(17)}, nil
}
