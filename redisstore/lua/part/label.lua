-- label_sets returns the keys of the label sets of a run: one for its workflow ID in the stored
-- form, and one for each tag. The tags are packed as in value.go, either in the metadata or in the
-- extra key. If they cannot be decoded, they have no label sets. failuregroup.go computes the same
-- names.
local function label_sets(run, wid, packed)
  local sets = {}
  local function name_set(label)
    sets[#sets + 1] = tag .. 'M:' .. string.sub(redis.sha1hex(label), 1, 16)
  end
  if wid then
    name_set('w' .. wid)
  end
  if packed == '+' then
    packed = redis.pcall('GET', tag .. 'x:' .. run)
  end
  if type(packed) ~= 'string' then
    return sets
  end
  -- behind returns the index after the text that begins at the given index.
  local function behind(at)
    local size, from = string.match(packed, '^(%d+):()', at)
    return size and from + size
  end
  local at = behind(1) -- the first text is the long workflow ID, or empty
  while at and at <= #packed do
    local value = behind(at)
    local rest = value and behind(value)
    if rest and rest <= #packed + 1 then
      name_set(string.sub(packed, at, rest - 1))
    end
    at = rest
  end
  return sets
end
