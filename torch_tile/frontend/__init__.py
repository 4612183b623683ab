"""From Dynamo's graph to graphs that the extension imports: AOTAutograd, decompositions, passes on the joint graph, partitioning."""
