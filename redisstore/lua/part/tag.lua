-- tag is what all keys of the partition begin with.
local tag = string.match(KEYS[1], '^[^}]+}%d*')
