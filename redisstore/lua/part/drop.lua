-- drop_streams removes all streams of a chain, and returns their number.
local function drop_streams(chain)
  local names = intact('HKEYS', tag .. 'S:' .. chain) or {}
  for _, name in ipairs(names) do
    redis.call('UNLINK', tag .. 'C:' .. chain .. ':' .. name, tag .. 'W:' .. chain .. ':' .. name)
  end
  redis.call('UNLINK', tag .. 'S:' .. chain)
  return #names
end
