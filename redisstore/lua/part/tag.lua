-- tag is the common prefix of all keys of the partition.
local tag = string.match(KEYS[1], '^[^}]+}%d*')
